package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/recording"
)

// succeeded is the outcome of a request that was answered.
const succeeded = recording.Outcome(1)

// outcomes reads a recording, and counts what became of the requests of a class.
func outcomes(t *testing.T, file []byte, class string) map[recording.Outcome]int {
	t.Helper()
	in, err := recording.NewReader(bytes.NewReader(file))
	fatal(t, err)
	counts := map[recording.Outcome]int{}
	for {
		r, err := in.Read()
		if err != nil {
			return counts
		}
		if in.Names()[r.Class] == class {
			counts[r.Outcome]++
		}
	}
}

// saved returns the file that a process has saved at its end.
func saved(t *testing.T, dir, change string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-"+change+".rec"))
	fatal(t, err)
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	file, err := os.ReadFile(files[0])
	fatal(t, err)
	return file
}

// flood sends requests by several clients at once until the log has a text.
func (s *served) flood(request, text string) {
	s.t.Helper()
	done := make(chan struct{})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, err := tryAsk(http.DefaultClient, "POST", s.public+"/"+request); err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	s.until(text)
	close(done)
	clients.Wait()
}

// Operators get the recording of the proxy. When it begins to reject requests, the recording is saved, too.
func TestProxyRecording(t *testing.T) {
	origin := echo(t)
	origin.Start()
	dir := filepath.Join(t.TempDir(), "recordings")
	tokens := file(t, "tokens.yaml", operatorTokens)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(20 * time.Millisecond) })
	origin.Config.Handler = slow
	s := proxying(t, "--origin", origin.URL, "--limit", "1", "--queue", "0", "--recordings", dir, "--admin-tokens", tokens)
	s.flood("orders/1", "condition=limit_used")
	for authorization, want := range map[string]int{"": 401, "Bearer secret-of-the-scraper": 403, "Bearer secret-of-the-operator": 200} {
		a := ask(t, http.DefaultClient, "GET", s.admin+"/-/recording?last=5m", "Authorization", authorization)
		if a.status != want {
			t.Errorf("%q: %d: want %d", authorization, a.status, want)
		}
		if want == 200 {
			if n := outcomes(t, []byte(a.body), "POST /orders/*"); n[succeeded] == 0 || len(n) != 2 {
				t.Errorf("%v", n)
			}
		}
	}
	s.until("recording begins")
	s.end()
	if n := outcomes(t, saved(t, dir, "limit_used"), "POST /orders/*"); n[succeeded] == 0 || len(n) != 2 {
		t.Errorf("%v", n)
	}
}

// So do those of weir serve.
func TestServeRecording(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	rules := file(t, "rules.yaml", `rules: [{name: mail, glob: "mail:*", rate: 50/s, burst: 1, queue: 2}]`)
	s := serving(t, "--rules", rules, "--recordings", dir)
	s.flood("rate/mail:1?canWait=true", "recording begins")
	a := ask(t, http.DefaultClient, "GET", s.admin+"/-/recording")
	if n := outcomes(t, []byte(a.body), "mail"); n[recording.Allowed] == 0 || len(n) != 2 {
		t.Errorf("%v", n)
	}
	s.end()
	if n := outcomes(t, saved(t, dir, "shedding"), "mail"); n[recording.Allowed] == 0 || len(n) != 2 {
		t.Errorf("%v", n)
	}
}

func TestRecordingFlags(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, "--recordings needs --records", []string{"--records", "0", "--recordings", t.TempDir()}},
		{2, "--recordings-size=16MiB: must be at", []string{"--recordings-size", "16MiB", "--recordings", t.TempDir()}},
		{1, "--recordings: mkdir /dev/null: not a", []string{"--recordings", "/dev/null"}},
	} {
		for _, command := range []string{"proxy", "serve"} {
			var errs bytes.Buffer
			args := append([]string{command, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, tt.args...)
			if command == "proxy" {
				args = append(args, "--origin", nowhere)
			}
			if code := program.Run(t.Context(), args, &errs, &errs); code != tt.status || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("%q: %d: %s", args, code, &errs)
			}
		}
	}
}
