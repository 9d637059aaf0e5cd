package main

import (
	"testing"

	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// weirlab runs a command line in this process.
func weirlab(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, program, args...)
}
