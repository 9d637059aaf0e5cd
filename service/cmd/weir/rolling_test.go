//go:build system

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A rolling restart of two instances, behind a client that uses the ready ones in turn, loses
// no request. A POST may not be sent twice.
func TestRollingRestart(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(origin.Close)
	weir := binary(t)
	for _, args := range [][]string{
		{"serve", "--max-requests", "50"},
		{"proxy", "--origin", origin.URL, "--limit", "100"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			f := &fleet{t: t, weir: weir, args: append(args, "--drain-delay", "2s"), instances: []*instance{{}, {}}}
			for _, i := range f.instances {
				f.start(i, "127.0.0.1:0", "127.0.0.1:0")
			}
			stop := f.clients()
			for _, i := range f.instances {
				f.until(func() bool { return i.ready.Load() && i.sent.Load() > 200 })
				fatal(t, i.cmd.Process.Signal(syscall.SIGTERM))
				if err := i.cmd.Wait(); err != nil {
					t.Errorf("%v: want exit status 0", err)
				}
				i.ready.Store(false)
				i.sent.Store(0)
				_, public, _ := strings.Cut(i.listen, "://")
				_, admin, _ := strings.Cut(i.admin, "://")
				f.start(i, public, admin)
			}
			f.until(func() bool { return f.instances[1].sent.Load() > 200 })
			stop()
		})
	}
}

type fleet struct {
	t         *testing.T
	weir      string
	args      []string
	instances []*instance
}

type instance struct {
	cmd           *exec.Cmd
	listen, admin string
	ready         atomic.Bool
	sent          atomic.Int64 // since it started
}

func (f *fleet) start(i *instance, listen, admin string) {
	f.t.Helper()
	cmd, public, private, log := start(f.t, f.weir, append(f.args, "--listen", listen, "--admin", admin)...)
	if public == "" {
		f.t.Fatalf("it does not listen: %s", log.Text())
	}
	if i.cmd = cmd; i.listen == "" {
		i.listen, i.admin = public, private
	}
	go func() {
		for log.Scan() {
			if text := log.Text(); strings.Contains(text, "not ready") && !connections.MatchString(text) {
				f.t.Errorf("%s: want the number of connections", text)
			}
		}
	}()
}

var connections = regexp.MustCompile(` connections=[1-9][0-9]* `)

// until waits until done reports true, or the test has failed.
func (f *fleet) until(done func() bool) {
	for !done() && !f.t.Failed() {
		time.Sleep(time.Millisecond)
	}
}

// clients sends requests over many kept connections, until stop is called.
func (f *fleet) clients() (stop func()) {
	var ended atomic.Bool
	var all sync.WaitGroup
	for _, i := range f.instances {
		all.Go(func() {
			for !ended.Load() {
				status, _, err := get(i.admin + "/-/ready")
				i.ready.Store(err == nil && status == 200)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	cleartext2 := &http.Transport{Protocols: new(http.Protocols)}
	cleartext2.Protocols.SetUnencryptedHTTP2(true)
	protocols := []*http.Client{{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, {Transport: cleartext2}}
	if f.args[0] == "proxy" {
		protocols = protocols[:1]
	}
	for w := range 48 {
		all.Go(func() {
			for turn := w; !ended.Load(); turn++ {
				i := f.instances[turn%len(f.instances)]
				if !i.ready.Load() {
					time.Sleep(time.Millisecond)
					continue
				}
				path := fmt.Sprintf("/rate/%d?canWait=%t&timeout=10s", w, turn%7 == 0)
				a, err := tryAsk(protocols[w%len(protocols)], "POST", i.listen+path)
				if err != nil || a.status != 200 && a.status != 429 {
					f.t.Errorf("%s: %v %v", path, err, a)
				}
				i.sent.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return func() {
		ended.Store(true)
		all.Wait()
	}
}
