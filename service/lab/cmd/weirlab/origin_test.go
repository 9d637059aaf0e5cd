//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// weirlab origin listens at a Unix socket, too, with the permissions of --socket-mode.
func TestOriginUnix(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir") // shorter than TempDir: the path of a socket is bounded
	clitest.Fatal(t, err)
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "o")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := new(testrig.Buffer)
	ended := make(chan int)
	go func() {
		ended <- program.Run(ctx, []string{"origin", "--listen", "unix:" + socket, "--service-time", "1ms", "--socket-mode", "0600"}, io.Discard, log)
	}()
	testrig.Eventually(t, "the origin listens", func() bool { return strings.Contains(log.String(), "listen=unix:"+socket) })
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want a socket with the mode 0600", info, err)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Get("http://localhost/")
	clitest.Fatal(t, err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit status %d: %s", code, log)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: want no socket", left, err)
	}
}
