//go:build system && unix

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var crashRounds = flag.Int("crashes", 3, "how often TestCrashes kills the server")

const (
	crashUnits = 5                      // of each key with leases
	crashTTL   = 400 * time.Millisecond // also the longest
	crashQuota = 50                     // tokens of a key a day
	crashKeys  = 10
)

// crashes kills a weir serve at random instants, while it is under load.
type crashes struct {
	*testing.T
	client *http.Client
	state  string // path
	url    atomic.Pointer[string]
	admin  atomic.Pointer[string]
	acts   [6]atomic.Int64 // that were answered, by kind

	mu     sync.Mutex // guards what follows
	held   map[string][]use
	last   uint64 // fencing token that was received
	quotas map[string]*spent
	saves  []time.Time // the modification times of the state since the start
}

// A use is an observation, independent of the server: a holder had n units between two
// instants.
type use struct {
	from, to time.Time
	n        int
}

// spent counts the tokens of a key, as an observer sees them.
type spent struct {
	took     []time.Time // when grants were received since the start
	net      int         // tokens taken and not given back
	regained int         // tokens that crashes may have given back
}

// The server is killed at random instants under a load of quotas, waits, leases,
// settlements and reloads, and started again. An observer sees no lease held twice or
// lost, no fencing token that does not increase, no key that gets more than its quota and
// what it had used since the last save, and no request without an answer. All rounds:
//
//	go test -tags system -run TestCrashes ./cmd/weir -crashes 200 -timeout 30m
func TestCrashes(t *testing.T) {
	t.Parallel()
	c := &crashes{
		T: t, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		state: filepath.Join(t.TempDir(), "state"), held: map[string][]use{}, quotas: map[string]*spent{},
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	name := binary(t)
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	nowhere := "http://127.0.0.1:1"
	c.url.Store(&nowhere)
	c.admin.Store(&nowhere)
	for kind, act := range []func(context.Context){c.spend, c.settle, c.wait, c.hold, c.hold, func(ctx context.Context) { c.reload(ctx, rules) }} {
		for range []int{4, 4, 4, 12, 6, 1}[kind] {
			load.Go(func() {
				for ctx.Err() == nil && !c.Failed() {
					act(ctx)
					c.acts[kind].Add(1)
				}
			})
		}
	}
	random := rand.New(rand.NewPCG(18, uint64(*crashRounds)))
	began := time.Now()
	round := 0
	for ; round < *crashRounds && !c.Failed(); round++ {
		fatal(t, os.WriteFile(rules, []byte(crashRules(round)), 0o600))
		cmd := c.start(name, rules)
		life := time.Duration(random.Int64N(int64(4 * crashTTL)))
		if round%10 == 9 {
			life /= 100 // it has hardly begun
		}
		pause(ctx, life)
		if round%5 == 4 {
			_ = cmd.Process.Signal(syscall.SIGTERM) // killed while it drains
			pause(ctx, time.Duration(random.Int64N(int64(20*time.Millisecond))))
		}
		kill(cmd)
		c.crashed()
	}
	fatal(t, os.WriteFile(rules, []byte(crashRules(0)), 0o600))
	cmd := c.start(name, rules)
	pause(ctx, 2*crashTTL)
	stop()
	load.Wait()
	c.check(time.Since(began))
	c.allLeases()
	fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("it does not end well: %v", err)
	}
	var acts []int64
	for i := range c.acts {
		acts = append(acts, c.acts[i].Load())
	}
	t.Logf("%d crashes in %v; acts by kind %v", round, time.Since(began).Round(time.Second), acts)
}

// crashRules returns the ith version of rules that differ in what does not matter here.
func crashRules(i int) string {
	return fmt.Sprintf(`rules:
  - {name: day, glob: "day:*", rate: %d/d, queue: %d}
  - {name: windows, glob: "window:*", rate: %[1]d/d, algorithm: fixed}
  - {name: slots, glob: "slots:*", concurrency: {limit: %[3]d, ttl: %[4]v, max_ttl: %[4]v, queue: 100, max_wait: 2s}}
  - {name: line, key: line, rate: 200/s, queue: 50, max_wait: 2s}
`, crashQuota, i%7, crashUnits, crashTTL)
}

// start starts the server, and returns once it has opened its listeners.
func (c *crashes) start(name, rules string) *exec.Cmd {
	cmd := exec.Command(name, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", rules,
		"--watch-interval", "1h", "--state", c.state, "--state-interval", "1s")
	stderr, err := cmd.StderrPipe()
	fatal(c.T, err)
	fatal(c.T, cmd.Start())
	c.Cleanup(func() { kill(cmd) })
	lines := bufio.NewScanner(stderr)
	var log []string
	for lines.Scan() {
		log = append(log, lines.Text())
		m := regexp.MustCompile(`msg="weir serve" listen=(\S+) admin=(\S+)`).FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		c.url.Store(&m[1])
		c.admin.Store(&m[2])
		go func() {
			for lines.Scan() {
				if strings.Contains(lines.Text(), "level=ERROR") {
					c.Error(lines.Text())
				}
			}
		}()
		go c.watch(cmd)
		return cmd
	}
	c.Fatalf("it ended at once: %v: %q", cmd.Wait(), log)
	return nil
}

// watch notes when the state is saved, until the process has ended.
func (c *crashes) watch(cmd *exec.Cmd) {
	for cmd.Process.Signal(syscall.Signal(0)) == nil {
		if info, err := os.Stat(c.state); err == nil {
			c.mu.Lock()
			if n := len(c.saves); n == 0 || c.saves[n-1].Before(info.ModTime()) {
				c.saves = append(c.saves, info.ModTime())
			}
			c.mu.Unlock()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// crashed notes which tokens the crash may have given back. The last save begins after
// the one before it has ended, so it has what was received before that.
func (c *crashes) crashed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var saved time.Time
	if n := len(c.saves); n > 1 {
		saved = c.saves[n-2]
	}
	for _, q := range c.quotas {
		q.took = slices.DeleteFunc(q.took, func(at time.Time) bool { return !at.After(saved) })
		q.regained += len(q.took)
		q.took = nil
	}
	c.saves = nil
}

// ask sends a request. It returns 0 if the server has crashed meanwhile.
func (c *crashes) ask(ctx context.Context, method, path string) (status int, body []byte) {
	url := *c.url.Load()
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, url+path, nil)
	fatal(c.T, err)
	sent := time.Now()
	resp, err := c.client.Do(r)
	if err == nil {
		defer resp.Body.Close()
		body, err = io.ReadAll(resp.Body)
	}
	switch {
	case err != nil && time.Since(sent) >= c.client.Timeout:
		c.Errorf("%s %s: no answer for %v", method, path, time.Since(sent))
	case err != nil:
		pause(ctx, 10*time.Millisecond) // it is down
	case resp.StatusCode != 200 && resp.StatusCode != 204 && resp.StatusCode != 404 && resp.StatusCode != 429 && resp.StatusCode != 503:
		c.Errorf("%s %s: %d %s", method, path, resp.StatusCode, body)
	default:
		return resp.StatusCode, body
	}
	return 0, nil
}

func crashKey() string {
	return fmt.Sprint([]string{"day:", "window:"}[rand.IntN(2)], rand.IntN(crashKeys))
}

// take takes a token of a key with a quota, and returns the id of the grant.
func (c *crashes) take(ctx context.Context, key string) (id string) {
	status, body := c.ask(ctx, "POST", "/rate/"+key)
	if status != 200 {
		return ""
	}
	var granted struct {
		ID string `json:"request_id"`
	}
	if err := json.Unmarshal(body, &granted); err != nil || granted.ID == "" {
		c.Errorf("%s: %v", body, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.quotas[key]
	if q == nil {
		q = new(spent)
		c.quotas[key] = q
	}
	q.took = append(q.took, time.Now())
	q.net++
	return granted.ID
}

func (c *crashes) spend(ctx context.Context) {
	c.take(ctx, crashKey())
	pause(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
}

// settle takes a token and gives it back, now and then twice. What may have been given
// back counts as such.
func (c *crashes) settle(ctx context.Context) {
	key := crashKey()
	id := c.take(ctx, key)
	if id == "" {
		pause(ctx, time.Millisecond)
		return
	}
	for range 1 + rand.IntN(2) {
		pause(ctx, time.Duration(rand.IntN(50))*time.Millisecond)
		if status, _ := c.ask(ctx, "DELETE", "/rate/"+key+"/"+id); status != 404 {
			c.mu.Lock()
			c.quotas[key].net--
			c.mu.Unlock()
		}
	}
}

func (c *crashes) wait(ctx context.Context) { c.ask(ctx, "POST", "/rate/line?canWait=true&timeout=1s") }

// hold leases units, renews the lease for a while, and returns it, or dies. A holder has
// its units until it returns them, or until the time to live has passed since it sent the
// last request that was answered.
func (c *crashes) hold(ctx context.Context) {
	key, n := fmt.Sprint("slots:", rand.IntN(2)), 1+rand.IntN(2)
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	sent := time.Now()
	status, body := c.ask(ctx, "POST", fmt.Sprintf("/lease/%s?n=%d&canWait=%v", key, n, rand.IntN(2) == 0))
	if status != 200 {
		pause(ctx, 5*time.Millisecond)
		return
	}
	u := use{time.Now(), sent.Add(crashTTL), n}
	var lease struct {
		ID    string `json:"lease_id"`
		Token uint64
	}
	if err := json.Unmarshal(body, &lease); err != nil || lease.Token <= last {
		c.Errorf("%s: %v: want a token above %d", body, err, last)
	}
	c.mu.Lock()
	c.last = max(c.last, lease.Token)
	c.mu.Unlock()
	for range rand.IntN(6) {
		pause(ctx, time.Duration(rand.Int64N(int64(crashTTL/3))))
		sent := time.Now()
		status, body := c.ask(ctx, "POST", "/lease/"+key+"/"+lease.ID)
		switch {
		case status == 200:
			u.to = sent.Add(crashTTL)
		case status == 404 && time.Now().Before(u.to):
			c.Errorf("%s is lost %v before its time: %s", lease.ID, time.Until(u.to), body)
		}
		if status == 404 || time.Now().After(u.to) {
			break
		}
	}
	if rand.IntN(4) > 0 {
		if now := time.Now(); now.Before(u.to) {
			u.to = now
		}
		c.ask(ctx, "DELETE", "/lease/"+key+"/"+lease.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[key] = append(c.held[key], u)
}

func (c *crashes) reload(ctx context.Context, rules string) {
	pause(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
	if err := os.WriteFile(rules+".new", []byte(crashRules(rand.IntN(100))), 0o600); err != nil {
		c.Error(err)
	}
	if err := os.Rename(rules+".new", rules); err != nil {
		c.Error(err)
	}
	if resp, err := c.client.Post(*c.admin.Load()+"/-/reload", "", nil); err == nil {
		resp.Body.Close()
	}
}

// check checks what was observed.
func (c *crashes) check(took time.Duration) {
	for key, uses := range c.held {
		type event struct {
			at    time.Time
			delta int
		}
		var events []event
		for _, u := range uses {
			if u.to.After(u.from) {
				events = append(events, event{u.from, u.n}, event{u.to, -u.n})
			}
		}
		slices.SortFunc(events, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), a.delta-b.delta) })
		n, most := 0, 0
		for _, e := range events {
			n += e.delta
			most = max(most, n)
		}
		c.Logf("%s: %d leases, at most %d units of %d at once", key, len(uses), most, crashUnits)
		if most > crashUnits {
			c.Errorf("%s: %d units of %d were held at once", key, most, crashUnits)
		}
	}
	refill := int(took.Hours()/24*crashQuota) + 1
	net, regained := 0, 0
	for key, q := range c.quotas {
		if q.net > crashQuota+q.regained+refill {
			c.Errorf("%s: %d tokens in use, of %d: crashes gave back at most %d", key, q.net, crashQuota, q.regained)
		}
		net, regained = net+q.net, regained+q.regained
	}
	c.Logf("%d keys: %d tokens in use, of %d; crashes gave back at most %d", len(c.quotas), net, len(c.quotas)*crashQuota, regained)
}

// allLeases checks that no unit was lost once all leases must have expired.
func (c *crashes) allLeases() {
	time.Sleep(2 * crashTTL)
	for _, key := range []string{"slots:0", "slots:1"} {
		if status, body := c.ask(context.Background(), "POST", fmt.Sprintf("/lease/%s?n=%d", key, crashUnits)); status != 200 {
			c.Errorf("%s: %d %s: want all units", key, status, body)
		}
		if status, _ := c.ask(context.Background(), "POST", "/lease/"+key); status != 429 {
			c.Errorf("%s: %d: want a refusal", key, status)
		}
	}
}
