package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/rate"
)

// byHeader is a cost that a request names.
func byHeader(r *http.Request) int {
	n, err := strconv.Atoi(r.Header.Get("Cost"))
	if err != nil {
		return 1
	}
	return n
}

func TestItIsAllOrNothing(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		second int // tokens of the second rule
		err    error
		status int
		by     string // the rule that refused
	}{
		{"all allow", 5, nil, 200, ""},
		{"a later rule refuses", 2, nil, 429, "second"},
		{"the limiter refuses", 5, refusedByLimiter, 503, ""},
		{"the limiter's context has ended", 5, context.Canceled, 499, ""},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			first, second := allow(t, "first", 5), allow(t, "second", tt.second)
			whole := rate.New(gcra.Per(5, time.Hour, 5), rate.Config{})
			v := testrig.Rejecting(tt.err, 0)
			var by string
			var why error
			s := newSite(t, Config{
				Rules:   []Rule{first.Cost(byHeader), Overall("whole", whole).Cost(byHeader), second.Cost(byHeader)},
				Limiter: v,
				Refuse: func(w http.ResponseWriter, r *http.Request, status int, rule string, err error) {
					if by, why = rule, err; status != tt.status {
						t.Errorf("%d: want %d", status, tt.status)
					}
					Reject(w, r, err)
				},
			}, nil)
			s.get(tt.status, "/", "X-Client: ada", "Cost: 3")
			left := 2
			if tt.status != 200 {
				left = 5
				s.ran(0)
				second.left(t, "ada", tt.second, "refused")
			}
			first.left(t, "ada", left, tt.rule)
			if n := int(whole.Tokens()); n != left {
				t.Errorf("%d tokens for all: want %d", n, left)
			}
			v.WantHeld(t, 0, "at the end")
			if by != tt.by || (why == nil) != (tt.status == 200) {
				t.Errorf("refused by %q: %v", by, why)
			}
			if tt.by != "" && len(v.Asked()) > 0 {
				t.Error("the limiter was asked although a rule had refused")
			}
			if n := s.counts(""); n.admitted+n.refused != 1 || (n.admitted == 1) != (tt.status == 200) {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestCosts(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		burst  int
		costs  []string
		status int // of the last
		reason string
		left   int
	}{
		{"one token, unless told", 3, []string{"-"}, 200, "", 2},
		{"as many as told", 3, []string{"3"}, 200, "", 0},
		{"more than are left", 3, []string{"2", "2"}, 429, "over_rate", 1},
		{"none is a look", 3, []string{"0"}, 200, "", 3},
		{"a look at an empty bucket", 3, []string{"3", "0"}, 200, "", 0},
		{"a look at a bucket that is always empty", 0, []string{"0"}, 200, "", 0},
		{"more than there ever are", 3, []string{"4"}, 429, "over_burst", 3},
		{"far more", 3, []string{fmt.Sprint(1 << 62)}, 429, "over_burst", 3},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			q := allow(t, "q", tt.burst)
			s := newSite(t, Config{Rules: []Rule{q.Cost(byHeader)}}, nil)
			w := s.do(testrig.Request("GET", "/", "X-Client: ada"))
			q.lim.Settle("ada", 1, 0)
			for _, c := range tt.costs {
				w = s.do(testrig.Request("GET", "/", "X-Client: ada", "Cost: "+c))
			}
			retry := w.Header().Get("Retry-After")
			if w.Code != tt.status || w.Header().Get(ReasonHeader) != tt.reason || (retry != "") != (tt.reason == "over_rate") {
				t.Errorf("%d %q, Retry-After %q: want %d %q", w.Code, w.Header().Get(ReasonHeader), retry, tt.status, tt.reason)
			}
			q.left(t, "ada", tt.left, "at last")
		})
	}
}

// A bucket that a dear request has left in debt refuses even a look.
func TestALookAtADebtIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := allow(t, "q", 3)
		s := newSite(t, Config{Rules: []Rule{q.Cost(byHeader)}}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Cost") == "1" {
				Use(w, 5)
			}
		})
		s.get(200, "/", "X-Client: ada", "Cost: 1")
		s.get(429, "/", "X-Client: ada", "Cost: 0")
		time.Sleep(40 * time.Minute)
		s.get(200, "/", "X-Client: ada", "Cost: 0")
	})
}

// Waiting requests are admitted in order of arrival, at the rate, and within the
// time of Wait.
func TestWaitForARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := allowAt(t, "q", gcra.PerSecond(1, 1))
		began, order := time.Now(), make(chan string, 10)
		s := newSite(t, Config{Rules: []Rule{q.Wait(3 * time.Second)}}, func(_ http.ResponseWriter, r *http.Request) {
			order <- fmt.Sprint(r.Header.Get("N"), "@", time.Since(began))
		})
		for n := range 6 {
			go func() {
				w := s.do(testrig.Request("GET", "/", "X-Client: ada", fmt.Sprint("N: ", n)))
				if w.Code != 200 {
					order <- fmt.Sprint(n, " ", w.Code, " after ", w.Header().Get("Retry-After"), " @", time.Since(began))
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		for _, want := range []string{"0@0s", "4 429 after 4 @0s", "5 429 after 4 @0s", "1@1s", "2@2s", "3@3s"} {
			if got := <-order; got != want {
				t.Errorf("%s: want %s", got, want)
			}
		}
		if r := s.Stats().Rules[0]; r.Allowed != 4 || r.Denied != 2 {
			t.Errorf("%+v", r)
		}
	})
}

// A request that leaves the queue gives its place to the next; one with a deadline
// before its turn is refused at once.
func TestLeavingTheQueueOfARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := allow(t, "first", 5)
		q := allowAt(t, "q", gcra.PerSecond(1, 1))
		s := newSite(t, Config{Rules: []Rule{first.Rule, q.Wait(time.Minute)}}, nil)
		s.get(200, "/", "X-Client: ada")
		began := time.Now()

		leaver, cancel := context.WithCancel(t.Context())
		codes := make(chan string, 2)
		come := func(ctx context.Context) {
			w := s.do(testrig.Request("GET", "/", "X-Client: ada").WithContext(ctx))
			codes <- fmt.Sprint(w.Code, "@", time.Since(began))
		}
		go come(leaver)
		synctest.Wait()
		go come(t.Context())
		synctest.Wait()
		first.left(t, "ada", 2, "while two wait")

		hasty, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		w := s.do(testrig.Request("GET", "/", "X-Client: ada").WithContext(hasty))
		if w.Code != 429 || time.Since(began) != 0 {
			t.Errorf("a turn after the deadline: %d after %v", w.Code, time.Since(began))
		}
		time.Sleep(time.Second / 2)
		cancel()
		if got := <-codes; got != "499@500ms" {
			t.Errorf("who left: %s", got)
		}
		if got := <-codes; got != "200@1s" {
			t.Errorf("who was behind: %s", got)
		}
		first.left(t, "ada", 3, "two of five were let in")
		if n := s.counts(""); n.admitted != 2 || n.refused != 2 {
			t.Errorf("%+v", n)
		}
	})
}

func TestARequestWithoutAKeySharesABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := allow(t, "q", 2)
		s := newSite(t, Config{Rules: []Rule{q.Rule}}, nil)
		s.get(200, "/")
		s.get(200, "/", "X-Client: ")
		s.get(429, "/a")
		s.get(200, "/", "X-Client: ada")
	})
}

// What is refused runs no handler, and says so with a body that the client's
// method allows.
func TestARefusalIsAnswered(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
	}{
		{weir.Reject(weir.OverLimit, 0), 503},
		{weir.Reject(weir.OverRate, time.Second), 429},
		{context.DeadlineExceeded, 504},
		{fmt.Errorf("a bug"), 500},
	} {
		v := testrig.Rejecting(tt.err, 0)
		s := newSite(t, Config{Limiter: v}, nil)
		if w := s.get(tt.status, "/"); w.Body.Len() == 0 {
			t.Errorf("%v: no body", tt.err)
		}
		if w := s.do(testrig.Request("HEAD", "/")); w.Code != tt.status || w.Body.Len() != 0 {
			t.Errorf("HEAD: %d %s", w.Code, w.Body)
		}
		s.ran(0)
	}
}
