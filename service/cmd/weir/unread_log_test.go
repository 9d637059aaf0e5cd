//go:build system && unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A reader of the log that stands still or has ended neither delays answers nor ends the
// process, and SIGTERM ends it well.
func TestUnreadLog(t *testing.T) {
	origin := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(origin.Close)
	weir := binary(t)
	for _, args := range [][]string{
		{"serve", "--log4xx"},
		{"proxy", "--origin", origin.URL},
	} {
		for _, reader := range []string{"stands still", "has ended"} {
			t.Run(args[0]+"/"+reader, func(t *testing.T) {
				t.Parallel()
				out, in, err := os.Pipe()
				fatal(t, err)
				cmd := exec.Command(weir, append(args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")...)
				cmd.Stderr = in
				fatal(t, cmd.Start())
				t.Cleanup(func() { _, _ = cmd.Process.Kill(), out.Close() })
				in.Close()
				first := make([]byte, 4096)
				n, err := out.Read(first)
				fatal(t, err)
				url := regexp.MustCompile(`listen=(\S+)`).FindStringSubmatch(string(first[:n]))[1]
				if reader == "has ended" {
					out.Close()
				}
				client := &http.Client{Timeout: 20 * time.Second}
				path := url + "/none/" + strings.Repeat("x", 900) // of 200 lines that do not fit in a pipe
				for range 200 {
					if a := ask(t, client, "POST", path); a.status != 404 {
						t.Fatalf("%+v", a)
					}
				}
				client.CloseIdleConnections()
				fatal(t, cmd.Process.Signal(syscall.SIGTERM))
				late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
				defer late.Stop()
				if err := cmd.Wait(); err != nil {
					t.Errorf("%v: want exit status 0", err)
				}
			})
		}
	}
}
