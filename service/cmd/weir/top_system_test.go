//go:build system

package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// In a terminal, the state of a proxy is drawn, and q ends it.
func TestTopInTerminal(t *testing.T) {
	s := proxying(t, "--origin", nowhere)
	cmd := exec.CommandContext(t.Context(), "script", "--quiet", "--return", "--command", "stty rows 24 cols 80; exec "+binary(t)+" top "+s.admin, os.DevNull)
	keys, err := cmd.StdinPipe()
	fatal(t, err)
	screen, err := cmd.StdoutPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	var drawn strings.Builder
	for part, quit := make([]byte, 4096), false; err == nil; {
		var n int
		n, err = screen.Read(part)
		drawn.Write(part[:n])
		if !quit && strings.Contains(drawn.String(), "N = X") {
			quit = true
			_, wrote := io.WriteString(keys, "q")
			fatal(t, wrote)
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(drawn.String(), "\x1b[?1049h") || !strings.Contains(drawn.String(), "\x1b[?1049l") {
		t.Errorf("%v: %q: want a screen of its own, and the one before at the end", err, drawn.String())
	}
}
