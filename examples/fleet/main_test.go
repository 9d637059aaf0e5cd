package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/client"
)

// A worker sends what weir serve allows, and stops without an error.
func TestWork(t *testing.T) {
	url := serve(t, "rules: [{name: mail, key: mail, rate: 100/s}]")
	c, err := client.New(client.Config{URL: url, Away: client.Deny, Timeout: 10 * time.Second, OnAway: func(err error) { t.Errorf("weir serve is away: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	sent := 0
	err = work(ctx, c.For("mail"), func() {
		if sent++; sent == 150 {
			stop()
		}
	})
	if err != nil || sent < 150 {
		t.Errorf("sent %d: %v", sent, err)
	}
}

// serve starts weir serve with these rules, and returns its URL.
func serve(t *testing.T, rules string) string {
	t.Helper()
	dir := t.TempDir()
	binary, file := filepath.Join(dir, "weir"), filepath.Join(dir, "rules.yaml")
	if out, err := exec.Command("go", "build", "-C", "../../service", "-o", binary, "./cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	cmd := exec.Command(binary, "serve", "--rules", file, "--listen", addr, "--admin", freeAddr(t))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := "http://" + addr
	for range 500 {
		if resp, err := http.Get(url + "/rate/none"); err == nil {
			_ = resp.Body.Close()
			return url
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("weir serve does not answer")
	return ""
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(fmt.Errorf("listen: %w", err))
	}
	defer l.Close()
	return l.Addr().String()
}
