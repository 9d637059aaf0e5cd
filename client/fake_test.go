package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/leaf"
)

// A fake stands for weir serve: it grants the tokens and units that a test puts
// there. It is the http.RoundTripper of its clients, so that it needs no network
// and works in virtual time.
type fake struct {
	mu        sync.Mutex // guards what follows
	tokens    map[string]int
	units     map[string]int // that are not leased
	requests  []string       // "POST /rate", for example
	settled   map[string]int // cost by request id
	outcomes  []string       // of leases that came back
	ids       int
	cancelled int // requests that waited
	down      bool
	slow      time.Duration // before each answer
	status    int           // of every answer, if not 0

	rates     map[string]leaf.Assignment // by key
	exchanges []leaf.Exchange
}

func newFake() *fake {
	return &fake{tokens: map[string]int{}, units: map[string]int{}, settled: map[string]int{}, rates: map[string]leaf.Assignment{}}
}

// client returns a Client of the fake, which the test closes.
func (f *fake) client(cfg client.Config) *client.Client {
	cfg.URL, cfg.HTTP = "http://weir.example", &http.Client{Transport: f}
	if cfg.Away == 0 {
		cfg.Away = client.Allow
	}
	cfg.Instances = max(cfg.Instances, 1)
	c, err := client.New(cfg)
	if err != nil {
		panic(err)
	}
	return c
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	slow, down := f.slow, f.down
	f.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if down {
		return nil, fmt.Errorf("connection refused")
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result(), nil
}

// wait waits until there are n of a key, and takes them. It reports whether there
// are in time.
func (f *fake) wait(r *http.Request, stock map[string]int, key string, n int) bool {
	timeout, _ := time.ParseDuration(r.URL.Query().Get("timeout"))
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		ok := stock[key] >= n
		if ok {
			stock[key] -= n
		}
		f.mu.Unlock()
		if ok || time.Now().After(end) {
			return ok
		}
		if r.Context().Err() != nil {
			f.set(func() { f.cancelled++ })
			return false
		}
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	n := 1
	_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	f.ids++
	id, status := fmt.Sprint("id", f.ids), f.status
	f.mu.Unlock()
	switch {
	case status != 0:
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":"no such rule"}`)
	case path[0] == "assign":
		f.assign(w, r)
	case len(path) == 1:
		f.batch(w, r, id)
	case path[0] == "rate" && len(path) == 3:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.settled[path[2]] = n
		fmt.Fprint(w, `{}`)
	case path[0] == "lease" && r.Method == "DELETE":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.units[path[1]]++
		f.outcomes = append(f.outcomes, r.URL.Query().Get("outcome"))
		fmt.Fprint(w, `{}`)
	case path[0] == "lease" && len(path) == 3:
		fmt.Fprintf(w, `{"lease_id":%q,"ttl_ms":3000}`, path[2])
	case path[0] == "lease" && f.wait(r, f.units, path[1], n):
		fmt.Fprintf(w, `{"lease_id":%q,"ttl_ms":3000,"token":%s,"limit":2}`, id, id[2:])
	case path[0] == "rate" && r.Method == "POST" && f.wait(r, f.tokens, path[1], n):
		fmt.Fprintf(w, `{"request_id":%q}`, id)
	default:
		w.WriteHeader(429)
		fmt.Fprint(w, `{"error":"x","reason":"over_rate","retry_after_ms":1000}`)
	}
}

// batch answers a request for the tokens of several keys.
func (f *fake) batch(w http.ResponseWriter, r *http.Request, id string) {
	var asked struct {
		Requests []struct {
			Key string
			N   int
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var results []string
	for i, q := range asked.Requests {
		if left := f.tokens[q.Key] - q.N; left >= 0 {
			f.tokens[q.Key] = left
			results = append(results, fmt.Sprintf(`{"ok":true,"remaining":%d,"request_id":"%s-%d"}`, left, id, i))
		} else {
			results = append(results, `{"ok":false,"reason":"over_rate","retry_after_ms":1000}`)
		}
	}
	fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(results, ","))
}

// assign answers the exchange of a leaf. Assignments are valid for 10 seconds.
func (f *fake) assign(w http.ResponseWriter, r *http.Request) {
	var x leaf.Exchange
	if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exchanges = append(f.exchanges, x)
	a := leaf.Answer{TTLMS: 10_000, NextMS: 1000, Assignments: []leaf.Assignment{}}
	for _, report := range x.Reports {
		assignment := f.rates[report.Key]
		assignment.Key = report.Key
		a.Assignments = append(a.Assignments, assignment)
	}
	_ = json.NewEncoder(w).Encode(a)
}

// count returns how many requests of a kind have come.
func (f *fake) count(request string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if r == request {
			n++
		}
	}
	return n
}

// set changes the fake while clients use it.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// bubble runs a test in virtual time with a fake and a Client.
func bubble(t *testing.T, cfg client.Config, test func(t *testing.T, f *fake, c *client.Client)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c := f.client(cfg)
		defer c.Close()
		test(t, f, c)
	})
}
