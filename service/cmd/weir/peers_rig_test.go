//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

// fleetSize is the number of members of a peerFleet.
const fleetSize = 3

// A peerFleet is processes that share keys, at addresses that outlive them.
type peerFleet struct {
	t         *testing.T
	name      string // of the binary
	args      []string
	own       [fleetSize][]string // further arguments of each member
	prefix    [fleetSize][]string // of the command line
	urls      []string
	lists     [fleetSize][]string // the peers of members that have another list than urls
	admin     [fleetSize]string   // addresses for operators; free ports if empty
	processes [fleetSize]*process
	client    *http.Client
	down      [fleetSize]atomic.Bool // its process has ended, or is about to
}

// newPeerFleet returns a peerFleet at free ports, without processes.
func newPeerFleet(t *testing.T, args ...string) *peerFleet {
	f := &peerFleet{t: t, name: binary(t), args: args, client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	for range fleetSize {
		f.urls = append(f.urls, "http://127.0.0.1:"+redistest.FreePort(t))
	}
	return f
}

// startPeerFleet starts all members, and waits until they know each other.
func startPeerFleet(t *testing.T, args ...string) *peerFleet {
	t.Helper()
	f := newPeerFleet(t, args...)
	for i := range fleetSize {
		f.start(i)
	}
	f.untilStatuses("live live live", 0, 1, 2)
	return f
}

// start starts the process of a member.
func (f *peerFleet) start(i int) {
	f.t.Helper()
	_, host, _ := strings.Cut(f.urls[i], "://")
	list := f.urls
	if f.lists[i] != nil {
		list = f.lists[i]
	}
	args := slices.Concat([]string{"--listen", host, "--peers", strings.Join(list, ",")}, f.args, f.own[i])
	if f.admin[i] != "" {
		args = append(args, "--admin", f.admin[i])
	}
	f.processes[i] = startCommand(f.t, slices.Concat(f.prefix[i], []string{f.name}, serveArgs(args))...)
	f.down[i].Store(false)
}

// statuses returns what a member knows about all, such as "live live dead" or "live cut cut, no quorum".
func (f *peerFleet) statuses(i int) string {
	resp, err := f.client.Get(f.processes[i].admin + "/-/status?rules=0")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var st struct {
		Peers struct {
			Quorum  bool
			Members []struct{ Name, Status string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		return err.Error()
	}
	var all []string
	for _, url := range f.urls {
		for _, m := range st.Peers.Members {
			if m.Name == url {
				all = append(all, m.Status)
			}
		}
	}
	text := strings.Join(all, " ")
	if !st.Peers.Quorum {
		text += ", no quorum"
	}
	return text
}

// untilStatuses waits until members know the same about all.
func (f *peerFleet) untilStatuses(want string, members ...int) {
	f.t.Helper()
	for _, i := range members {
		redistest.Until(f.t, "peers", func() error {
			if got := f.statuses(i); got != want {
				return fmt.Errorf("instance %d knows %s, want %s", i, got, want)
			}
			return nil
		})
	}
}

// A taken is the answer of a member to a request for tokens or units.
type taken struct {
	ok     bool
	status int    // 0 if the member does not answer
	step   string // on what the decision is based
	body   string
}

// take sends a POST request to a member. It fails the test if a member that is not about to end
// answers with anything but a decision.
func (f *peerFleet) take(i int, path string) taken {
	before := f.down[i].Load()
	a, err := tryAsk(f.client, "POST", f.urls[i]+path)
	got := taken{a.status == http.StatusOK, a.status, "", a.body}
	if err == nil {
		got.step = stepOf(a.header.Get("Weir-Degraded"))
	}
	switch {
	case err == nil && (a.status == http.StatusOK || a.status == http.StatusTooManyRequests):
	case before || f.down[i].Load():
	default:
		f.t.Errorf("instance %d: POST %s: %v, %v", i, path, a, err)
	}
	return got
}

// ownedBy returns the first key with a prefix that a member owns: the others forward requests for it.
func (f *peerFleet) ownedBy(i int, prefix string) string {
	f.t.Helper()
	for n := range 100 {
		key := fmt.Sprintf("%s:%d", prefix, n)
		before := f.forwarded(i)
		f.take(i, "/rate/"+key+"?n=0")
		if f.forwarded(i) == before {
			return key
		}
	}
	f.t.Fatal("it owns no key")
	return ""
}

// forwarded returns of how many requests a member has asked others.
func (f *peerFleet) forwarded(i int) int {
	f.t.Helper()
	return metricOf(f.t, f.client, f.processes[i].admin, `weir_peer_forwarded_total{name="serve"}`)
}

// metricOf returns a metric as a whole number.
func metricOf(t *testing.T, client *http.Client, admin, name string) (n int) {
	t.Helper()
	for line := range strings.Lines(ask(t, client, "GET", admin+"/metrics").body) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			if _, err := fmt.Sscan(text, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// A peerLoad is callers that ask for tokens of keys, and wait for them, at all members.
type peerLoad struct {
	f       *peerFleet
	load    *redistest.Load
	keys    []string
	waiters atomic.Int64 // answers of requests that waited
}

// startLoad starts callers for some keys: at each member and for each key, one that takes tokens and
// one that waits for one.
func (f *peerFleet) startLoad(keys ...string) *peerLoad {
	l := &peerLoad{f: f, keys: keys}
	l.load = redistest.StartLoad(2*len(keys)*fleetSize, 20*time.Millisecond, func(caller int) (bool, string, error) {
		i, waits := caller/len(keys)%fleetSize, caller >= len(keys)*fleetSize
		path := "/rate/" + keys[caller%len(keys)]
		if waits {
			path += "?canWait=true&timeout=15s"
		}
		got := f.take(i, path)
		if waits && got.status != 0 {
			l.waiters.Add(1)
		}
		return got.ok, got.step, nil
	})
	return l
}

// stop returns the answers about each key.
func (l *peerLoad) stop() map[string]redistest.Answers {
	l.f.t.Helper()
	if err := l.load.Stop(); err != nil {
		l.f.t.Error(err)
	}
	if l.waiters.Load() == 0 {
		l.f.t.Error("no request has waited")
	}
	byKey := map[string]redistest.Answers{}
	for _, a := range l.load.Answers(0, time.Hour) {
		key := l.keys[a.Caller%len(l.keys)]
		byKey[key] = append(byKey[key], a)
	}
	return byKey
}
