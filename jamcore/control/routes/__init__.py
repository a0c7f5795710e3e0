"""The routes by group. Each is a row of data, from which the application and the OpenAPI document are both made."""
