package main

import (
	"fmt"
	"net"
	"time"
)

// listen opens a TCP listener at the address of a flag.
func listen(flag, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("%s=%s: want host:port, such as 127.0.0.1:8000", flag, addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return ln, nil
}

// atLeast checks the lower bound of a flag.
func atLeast[T int | float64 | time.Duration](least T, flag string, v T) error {
	if v < least {
		return usagef("%s=%v: must be >= %v", flag, v, least)
	}
	return nil
}

// orNone turns the 0 of a flag, which means none, into the -1 of a Config, where 0
// means the default.
func orNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}
