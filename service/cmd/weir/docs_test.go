package main

import (
	"flag"
	"fmt"
	"log/slog"
	"testing"

	"github.com/weir-go/weir/internal/pagetest"
	"github.com/weir-go/weir/service/internal/cli/clitest"
	"github.com/weir-go/weir/service/internal/daemon"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

const root = "../../../"

var update = flag.Bool("update", false, "write the flags into docs/defaults.md")

// docs/defaults.md has each flag with its default, in the groups of the help texts, and the bounds of servers that no flag sets.
func TestDefaults(t *testing.T) {
	const page = root + "docs/defaults.md"
	pagetest.Keep(t, page, "commands", clitest.Defaults(t, program), *update)
	srv := httpserve.New(nil, slog.New(slog.DiscardHandler))
	pagetest.Keep(t, page, "servers", fmt.Sprintf(`| bound | value | of |
|---|---|---|
| header of a request | %d KiB | listeners of operators, weirlab origin, weirlab demo |
| header of a request | %d KiB, with the default of --max-key | weir serve --listen |
| time for a header | %v | all but weir serve --listen and weir proxy --listen, which have flags |
| time without a request on a connection | %v | all but weir proxy --listen |
| requests at a time on a connection of HTTP/2 | %d | weir serve --listen, weir proxy --listen |
`, srv.MaxHeaderBytes>>10, daemon.MaxHeader(httpapi.DefaultMaxKey)>>10, srv.ReadHeaderTimeout, srv.IdleTimeout, httpserve.MaxStreams), *update)
}

// The command lines of README and docs are right.
func TestCommandLines(t *testing.T) { clitest.CommandLines(t, program, root, 80) }
