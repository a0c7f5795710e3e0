"""Published for tests of plugins, engines and the core: suites, doubles, servers, crash points and leak guards."""
