package main

import (
	"flag"
	"testing"

	"github.com/weir-go/weir/internal/pagetest"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

const root = "../../../../"

var update = flag.Bool("update", false, "write the flags into docs/defaults.md")

// docs/defaults.md has each flag with its default.
func TestDefaults(t *testing.T) {
	pagetest.Keep(t, root+"docs/defaults.md", "commands of the laboratory", clitest.Defaults(t, program), *update)
}

// The command lines of README and docs are right.
func TestCommandLines(t *testing.T) { clitest.CommandLines(t, program, root, 30) }
