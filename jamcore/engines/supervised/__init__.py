"""What engines share that run programs below a supervising process of Jam's own: in a namespace, where it is process 1, or on the host."""
