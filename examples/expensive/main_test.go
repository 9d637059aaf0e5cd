package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client asks a service, and counts the calls that it makes.
type client struct {
	t    *testing.T
	h    http.Handler
	logs bytes.Buffer // a log.Logger writes one line at a time
}

func newClient(t *testing.T, level int, limiterFirst bool) *client {
	c := &client{t: t}
	s := &service{
		log: log.New(&c.logs, "", 0), level: level, limiterFirst: limiterFirst,
		ttl: 10 * time.Second, work: time.Second,
	}
	var err error
	if c.h, err = s.handler(); err != nil {
		t.Fatal(err)
	}
	return c
}

// An answer is a response, and the time it took.
type answer struct {
	code             int
	from, retryAfter string
	took             time.Duration
}

func (c *client) ask(ctx context.Context, query string) answer {
	began := time.Now()
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/calculate"+query, nil))
	return answer{w.Code, w.Header().Get("X-Cache"), w.Header().Get("Retry-After"), time.Since(began)}
}

// hey sends n requests from a number of workers, and counts the answers.
func (c *client) hey(n, workers int) map[answer]int {
	var mu sync.Mutex
	answers := make(map[answer]int)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range n / workers {
				a := c.ask(c.t.Context(), "")
				mu.Lock()
				answers[a]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answers
}

func (c *client) want(what string, got, want map[answer]int, calls int) {
	c.t.Helper()
	if !maps.Equal(got, want) {
		c.t.Errorf("%s: %v, want %v", what, got, want)
	}
	if n := strings.Count(c.logs.String(), "\n"); n != calls {
		c.t.Errorf("%s: %d calls, want %d", what, n, calls)
	}
}

// The answers that there are.
var (
	filled    = answer{200, "filled", "", time.Second}
	coalesced = answer{200, "coalesced", "", time.Second}
	hit       = answer{200, "hit", "", 0}
	refused   = answer{429, "failed", "1", 0}
)

func TestLevels(t *testing.T) {
	for _, l := range []struct {
		name         string
		level        int
		limiterFirst bool
		cold         map[answer]int // hey -n 4 -c 2
		calls        int
		warm         map[answer]int // the same, at once after it
		callsThen    int
	}{
		{"0", 0, false, map[answer]int{filled: 4}, 4, map[answer]int{filled: 4}, 8},
		{"1", 1, false, map[answer]int{filled: 2, hit: 2}, 2, map[answer]int{hit: 4}, 2},
		{"2", 2, false, map[answer]int{filled: 1, coalesced: 1, hit: 2}, 1, map[answer]int{hit: 4}, 1},
		{"3", 3, false, map[answer]int{filled: 1, coalesced: 1, hit: 2}, 1, map[answer]int{hit: 4}, 1},
		{"3, limiter first", 3, true, map[answer]int{filled: 1, hit: 1, refused: 2}, 1, map[answer]int{refused: 4}, 1},
	} {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, l.level, l.limiterFirst)
				c.want("cold", c.hey(4, 2), l.cold, l.calls)
				c.want("warm", c.hey(4, 2), l.warm, l.callsThen)
			})
		})
	}
}

func TestOneCallForAThousand(t *testing.T) {
	for _, level := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, level, false)
			c.want("cold", c.hey(1000, 1000), map[answer]int{filled: 1, coalesced: 999}, 1)
			time.Sleep(9999 * time.Millisecond)
			c.want("about to expire", c.hey(1000, 1000), map[answer]int{hit: 1000}, 1)
			time.Sleep(time.Millisecond)
			c.want("expired", c.hey(1000, 1000), map[answer]int{filled: 1, coalesced: 999}, 2)
		})
	}
}

func TestOneCallASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, 3, false)
		expect := func(query string, want answer) {
			t.Helper()
			if got := c.ask(t.Context(), query); got != want {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		expect("?x=1", filled)
		go c.ask(t.Context(), "?x=2") // a second later: the next token
		synctest.Wait()
		for range 100 {
			expect("?x=3", refused)
			expect("?x=1", hit)
		}
		time.Sleep(time.Second)
		expect("?x=3", filled)
		expect("?x=2", hit)
		c.want("all", nil, nil, 3)
	})
}

func TestWhoLeavesTakesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, 2, false)
		ctx, leave := context.WithCancel(t.Context())
		go c.ask(ctx, "")
		synctest.Wait()
		time.AfterFunc(500*time.Millisecond, leave)
		if got := c.ask(t.Context(), ""); got != coalesced {
			t.Errorf("%v, want %v", got, coalesced)
		}

		ctx, leave = context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		c.ask(ctx, "?x=1") // alone: the call ends with it
		if got := c.ask(t.Context(), "?x=1"); got != filled {
			t.Errorf("%v, want %v", got, filled)
		}
	})
}

func TestServesUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		s := &service{log: log.New(w, "", 0), level: 3, ttl: time.Second, work: 50 * time.Millisecond}
		ended <- s.run(ctx, "127.0.0.1:0")
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatal("it said nothing: ", <-ended)
	}
	_, url, _ := strings.Cut(lines.Text(), "-c 2 ")
	go func() {
		lines.Scan() // the call has begun
		interrupt()
		io.Copy(io.Discard, r)
	}()
	resp, err := http.Get(url)
	interrupt() // if there was no call
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || !strings.HasPrefix(string(body), "done at ") {
		t.Errorf("%s %q", resp.Status, body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMistakes(t *testing.T) {
	for want, s := range map[string]*service{
		"--level 4: must be from 0 to 3":       {level: 4},
		"3 for --limiter-first; --help lists":  {level: 2, limiterFirst: true},
		"TTL = -1s: must be >= 0":              {ttl: -time.Second},
		"choose another address with --listen": {},
	} {
		if err := s.run(t.Context(), "nowhere"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := newClient(t, 3, false)
	if got := c.ask(t.Context(), "?x="+strings.Repeat("y", 101)); got.code != 400 {
		t.Errorf("a long x: %v", got)
	}
}
