//go:build system && !race

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/examples/internal/weirserve"
)

// With 2.6 times the queries that the database can do, a limit that finds itself serves as much as
// one that was tuned by hand, in four fifths of the time that clients wait, and the service
// without a limit next to nothing. Other programs on the machine may spoil a run, but not three.
func TestOverload(t *testing.T) {
	db, err := startPostgres(t.Context())
	testrig.Must(t, err)
	t.Cleanup(func() {
		if err := db.stop(); err != nil {
			t.Error(err)
		}
	})
	x := experiment{load: 2.6, patience: time.Second, warmUp: 10 * time.Second, duration: 15 * time.Second}
	var faults []string
	for range 3 {
		results, err := x.run(t.Context(), db, config{fixed: 5, cancel: "grace", query: 40 * time.Millisecond}, t.Output())
		testrig.Must(t, err)
		if faults = x.faults(results[0], results[1], results[2]); len(faults) == 0 {
			return
		}
	}
	t.Error(strings.Join(faults, "\n"))
}

func (x *experiment) faults(none, fixed, auto result) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if none.useful >= 0.3*fixed.useful {
		fault("none: %.0f useful queries a second; fixed: %.0f", none.useful, fixed.useful)
	}
	if auto.useful < 0.93*fixed.useful {
		fault("auto: %.0f useful queries a second; fixed: %.0f", auto.useful, fixed.useful)
	}
	if p95 := auto.all.quantile(0.95); p95 > x.patience*4/5 {
		fault("auto: P95 %v", p95)
	}
	for i, r := range auto.routes {
		if r.served < fixed.routes[i].served/2 {
			fault("auto: %.1f requests of %s a second; fixed: %.1f", r.served, routes[i].path, fixed.routes[i].served)
		}
	}
	return faults
}

// The program answers as docs/orders.md says, takes the load of both scripts, and leaves nothing
// behind after an interrupt.
func TestProgram(t *testing.T) {
	weirlab, program := filepath.Join(t.TempDir(), "weirlab"), filepath.Join(t.TempDir(), "orders")
	for _, build := range [][]string{{"-C", "../../service/lab", "-o", weirlab, "./cmd/weirlab"}, {"-o", program, "."}} {
		if out, err := exec.Command("go", append([]string{"build"}, build...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	temp, err := os.MkdirTemp("", "orders test ")
	testrig.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o755); err != nil { // PostgreSQL runs as another user
		t.Fatal(err)
	}
	addr := weirserve.FreeAddr(t)
	cmd := exec.Command(program, "-listen", addr)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stderr = t.Output()
	testrig.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("after an interrupt: %v", err)
			}
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Error("does not end after an interrupt")
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	url := "http://" + addr
	for tries := 0; ; tries++ {
		resp, err := http.Get(url + "/metrics")
		if err == nil {
			_ = resp.Body.Close()
			break
		}
		if tries == 600 {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}

	for _, tt := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/catalog", 200, `^\[{"id":1,"name":"product 1","price":101}`},
		{"POST", "/orders?customer=17&product=42", 201, `^5001\n$`},
		{"POST", "/orders?customer=17&product=51", 404, ``},
		{"POST", "/orders?customer=&product=42", 400, `^customer: must be a number`},
		{"GET", "/customers/17", 200, `"customer":{"id":17,"name":"customer 17"}.*"last":\[{"id":5001,"product":42,"price":142},.*"orders":6,"spent":\d+`},
		{"GET", "/customers/1001", 404, ``},
		{"GET", "/customers/x", 400, `^id: must be a number`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, url+tt.path, nil)
		testrig.Must(t, err)
		resp, err := http.DefaultClient.Do(req)
		testrig.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status || !regexp.MustCompile(tt.body).Match(body) {
			t.Errorf("%s %s: %d, %v\n%s", tt.method, tt.path, resp.StatusCode, err, body)
		}
	}
	for _, load := range [][]string{
		{weirlab, "load", url, "--targets", "mix.targets", "--rate", "100", "--duration", "2s", "--timeout", "1s", "--quiet", "--max-failed", "0%"},
		{"k6", "run", "--quiet", "-e", "URL=" + url, "-e", "RATE=100", "-e", "DURATION=2s", "mix.js"},
	} {
		if out, err := exec.CommandContext(t.Context(), load[0], load[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(load, " "), err, out)
		}
	}
}
