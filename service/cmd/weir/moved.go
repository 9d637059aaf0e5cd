package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weir-go/weir/service/internal/cli"
)

// moved are the commands that weirlab has.
type moved struct {
	Demo    movedCmd `cmd:"" hidden:"" passthrough:""`
	Load    movedCmd `cmd:"" hidden:"" passthrough:""`
	Compare movedCmd `cmd:"" hidden:"" passthrough:"" name:"load-compare"`
	Origin  movedCmd `cmd:"" hidden:"" passthrough:""`
	Sim     movedCmd `cmd:"" hidden:"" passthrough:""`
	Arena   movedCmd `cmd:"" hidden:"" passthrough:""`
	Lab     movedCmd `cmd:"" hidden:"" passthrough:""`
}

// A movedCmd names the command of weirlab, and where to get it.
type movedCmd struct {
	Args []string `arg:"" optional:""`
}

// Run returns an error, for any arguments.
func (c *movedCmd) Run(command *kong.Context) error {
	name := command.Selected().Name
	if name == "lab" {
		name = "sla"
	}
	return cli.Moved("weirlab " + strings.Replace(name, "-", " ", 1) + ": go install github.com/weir-go/weir/service/lab/cmd/weirlab@latest")
}
