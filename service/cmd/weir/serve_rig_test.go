package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// A served is a weir serve that runs in this process.
type served struct {
	t             *testing.T
	public, admin string   // URLs
	stop          func()   // as SIGTERM does
	ended         chan int // receives the exit status, and is closed
	token         string   // of post, if any

	mu   sync.Mutex // guards what follows
	grew sync.Cond
	log  []string
	over bool
}

// serving runs weir serve on free ports until the test ends.
func serving(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	return watch(t, stop, func(log io.Writer) int { return program.Run(ctx, serveArgs(args), io.Discard, log) })
}

// serveArgs returns the arguments of a weir serve on free ports.
func serveArgs(more []string) []string {
	return append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "0s"}, more...)
}

// watch runs a weir serve, which returns its exit status, until the test ends.
func watch(t *testing.T, stop func(), serve func(log io.Writer) int) *served {
	t.Helper()
	s := &served{t: t, stop: stop, ended: make(chan int, 1)}
	s.grew.L = &s.mu
	out, in := io.Pipe()
	go s.listen(out)
	go func() {
		code := serve(in)
		in.Close()
		s.ended <- code
		close(s.ended)
	}()
	t.Cleanup(func() {
		stop()
		<-s.ended
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("the log's end: %s", strings.Join(s.log[max(len(s.log)-20, 0):], "\n"))
		}
	})
	first := s.until(`msg="weir `)
	for field, to := range map[string]*string{"listen": &s.public, "admin": &s.admin} {
		if found := regexp.MustCompile(`\b` + field + `=(\S+)`).FindStringSubmatch(first); found != nil { // weirlab origin has no admin
			*to = found[1]
		}
	}
	return s
}

func (s *served) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		s.mu.Lock()
		s.log = append(s.log, lines.Text())
		s.grew.Broadcast()
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.over = true
	s.grew.Broadcast()
	s.mu.Unlock()
}

// until waits for a line of the log with a text.
func (s *served) until(text string) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for seen := 0; ; s.grew.Wait() {
		for ; seen < len(s.log); seen++ {
			if strings.Contains(s.log[seen], text) {
				return s.log[seen]
			}
		}
		if s.over {
			s.t.Fatalf("the log ends without %q: %q", text, s.log)
		}
	}
}

// logged counts the lines of the log with a text.
func (s *served) logged(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.log {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// forget keeps the end of the log alone.
func (s *served) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = slices.Clone(s.log[max(len(s.log)-20, 0):])
}

// end ends it, and checks that it ended well.
func (s *served) end() {
	s.t.Helper()
	s.stop()
	if code := <-s.ended; code != 0 {
		s.t.Errorf("exit status %d", code)
	}
}

// An answered is an answer that was read.
type answered struct {
	status int
	header http.Header
	body   string
	proto  string
}

// ask sends a request, with header fields in pairs.
func ask(t *testing.T, client *http.Client, method, url string, fields ...string) answered {
	t.Helper()
	a, err := tryAsk(client, method, url, fields...)
	fatal(t, err)
	return a
}

func tryAsk(client *http.Client, method, url string, fields ...string) (answered, error) {
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		return answered{}, err
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answered{resp.StatusCode, resp.Header, string(body), resp.Proto}, err
}

// post sends a POST request.
func (s *served) post(path string) answered {
	s.t.Helper()
	return ask(s.t, http.DefaultClient, "POST", s.public+path, s.authorization()...)
}

// authorization returns the header field with the token, if any.
func (s *served) authorization() []string {
	if s.token == "" {
		return nil
	}
	return []string{"Authorization", "Bearer " + s.token}
}

// statuses sends n requests and returns their statuses.
func (s *served) statuses(path string, n int) (all []int) {
	s.t.Helper()
	for range n {
		all = append(all, s.post(path).status)
	}
	return all
}

// status returns the status of the admin listener.
func (s *served) status() (st struct {
	Ready  bool
	Config struct {
		Path, Hash string
		LastError  string `json:"last_error"`
		Reloads    int
	}
	Total    struct{ Waiting int }
	Upstream struct{ Decisions map[string]uint64 }
}) {
	s.t.Helper()
	a := ask(s.t, http.DefaultClient, "GET", s.admin+"/-/status?rules=0")
	if err := json.Unmarshal([]byte(a.body), &st); err != nil || a.status != 200 {
		s.t.Fatalf("%v: %v", a, err)
	}
	return st
}

// waiting returns when n requests wait.
func (s *served) waiting(n int) {
	s.t.Helper()
	redistest.Until(s.t, fmt.Sprintf("%d requests that wait", n), func() error {
		if is := s.status().Total.Waiting; is != n {
			return fmt.Errorf("%d wait", is)
		}
		return nil
	})
}

// reload asks for a reload.
func (s *served) reload() answered {
	s.t.Helper()
	return ask(s.t, http.DefaultClient, "POST", s.admin+"/-/reload")
}

// hangUp sends SIGHUP to the process. It returns when the signal has come, so that no server ends before
// that: without one, SIGHUP ends the process.
func hangUp(t testing.TB) {
	t.Helper()
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	defer signal.Stop(came)
	fatal(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-came
}

var file, fatal = clitest.File, clitest.Fatal

func get(url string) (status int, body string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// A heldLease is a lease as its holder sees it.
type heldLease struct {
	ID    string `json:"lease_id"`
	Token uint64
}

// lease takes a lease of a key, and returns its path.
func (s *served) lease(key string) (path string) {
	s.t.Helper()
	var l heldLease
	a := s.post("/lease/" + key)
	fatal(s.t, json.Unmarshal([]byte(a.body), &l))
	return "/lease/" + key + "/" + l.ID
}

// weir runs a command line in this process.
func weir(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, program, args...)
}

// nowhere is the URL of an instance that does not exist.
const nowhere = "http://127.0.0.1:1"
