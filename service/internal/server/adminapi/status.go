package adminapi

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server"
)

// Status is the state of the server.
type Status struct {
	NowMS     int64       `json:"now_ms"`
	StartedMS int64       `json:"started_ms"`
	Ready     bool        `json:"ready"`
	NotReady  string      `json:"not_ready,omitempty"` // why not
	Words     string      `json:"words"`               // which rules refuse requests, and why, in a sentence
	Config    ConfigState `json:"config"`
	Store     *StoreState `json:"store,omitempty"` // of shared limits
	Upstream  *LeafState  `json:"upstream,omitempty"`
	Peers     *PeersState `json:"peers,omitempty"` // that share keys
	// WindowMS is the time over which all rates are measured: some seconds, or 0 if
	// the server has just started and there are none.
	WindowMS int64        `json:"window_ms"`
	Total    TotalState   `json:"total"`
	Rules    []RuleStatus `json:"rules"` // in the order of the file
	// RulesInForce is the number of all rules. If Rules has fewer, it has the rules
	// with the most refusals, then with the most allowed requests.
	RulesInForce int      `json:"rules_in_force"`
	History      []Sample `json:"history,omitempty"` // the oldest first
}

// StoreState describes the store of shared limits.
type StoreState struct {
	Away      bool              `json:"away"`      // it does not answer: decisions are degraded
	Instances int               `json:"instances"` // that share the limits
	Decisions map[string]uint64 `json:"decisions"` // by step: see decider.Step
}

// storeState returns the state of the store; nil if there is none.
func (a *API) storeState() *StoreState {
	if a.cfg.Store == nil {
		return nil
	}
	stats := a.cfg.Store()
	st := &StoreState{Away: stats.Away, Instances: stats.Instances, Decisions: byStep(&stats.Decisions)}
	return st
}

// ConfigState describes the source of the rules.
type ConfigState struct {
	Path      string `json:"path,omitempty"`
	Hash      string `json:"hash,omitempty"` // of the rules in force
	LoadedMS  int64  `json:"loaded_ms"`      // when these were loaded
	Reloads   uint64 `json:"reloads"`        // loads, the first included
	Apply     string `json:"apply"`          // first, all, or merge
	Unmatched string `json:"unmatched"`      // the decision for keys that no rule matches: allow or deny
	SuccessMS int64  `json:"last_success_ms,omitempty"`
	FailureMS int64  `json:"last_failure_ms,omitempty"`
	Error     string `json:"last_error,omitempty"` // of the last load; empty if it succeeded
}

// TotalState sums up all rules, and the keys that no rule matches.
type TotalState struct {
	Count     Flow[uint64]  `json:"count"`
	PerSecond Flow[float64] `json:"per_second"`
	// Unmatched is the part of PerSecond for keys that no rule matches.
	Unmatched Flow[float64] `json:"unmatched_per_second"`
	Waiting   int           `json:"waiting"` // for tokens and for leases
	Leases    int           `json:"leases"`  // units held
	Memory    int           `json:"memory_bytes"`
	// Leaves are the processes that decide by themselves, within Assignments of keys.
	Leaves      int `json:"leaves"`
	Assignments int `json:"assignments"`
}

// RuleStatus is a rule in force, with the outcomes of requests under it.
type RuleStatus struct {
	RuleText
	Queue     int           `json:"queue"`                 // that may wait for one bucket
	MaxWaitMS int64         `json:"max_wait_ms,omitempty"` // 0: no bound
	Count     Flow[uint64]  `json:"count"`
	PerSecond Flow[float64] `json:"per_second"`
	Waiting   int           `json:"waiting"`
	// Quantiles of the recent waits that ended with a grant; nil if there are none.
	WaitP50MS *float64 `json:"wait_p50_ms,omitempty"`
	WaitP95MS *float64 `json:"wait_p95_ms,omitempty"`
	Memory    int      `json:"memory_bytes"`
	Forgotten uint64   `json:"forgotten"`        // counts dropped because memory was full
	Leases    *Leases  `json:"leases,omitempty"` // nil if it has none
}

// Leases is the state of the leases of a rule.
type Leases struct {
	Limit    string `json:"limit"` // per key, or for all keys if Per is rule: a number, or auto
	TTLMS    int64  `json:"ttl_ms"`
	Held     int    `json:"held"` // units, of all keys
	Waiting  int    `json:"waiting"`
	Keys     int    `json:"keys"` // with leases
	Returned uint64 `json:"returned"`
	Renewed  uint64 `json:"renewed"`
	Expired  uint64 `json:"expired"`
}

func (a *API) serveStatus(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	st := a.status()
	if n, ok := operator.Number(w, q.Get("rules"), len(st.Rules)); !ok {
		return
	} else if n < len(st.Rules) {
		st.Rules = busiest(st.Rules, n)
	}
	if text := q.Get("since"); text != "" {
		after, ok := operator.Number(w, text, 0)
		if !ok {
			return
		}
		st.History = a.history.since(int64(after))
	}
	operator.Answer(w, http.StatusOK, st)
}

func (a *API) status() Status {
	stats := a.cfg.Server.Stats()
	now := a.read(stats)
	then, ok := a.history.base()
	if !ok {
		then = now
	}
	window := now.at.Sub(then.at)
	st := Status{
		NowMS: now.at.UnixMilli(), StartedMS: a.started.UnixMilli(), Ready: true, Config: a.config(stats),
		WindowMS: window.Milliseconds(), Rules: make([]RuleStatus, len(stats.Rules)), RulesInForce: len(stats.Rules),
		Total: TotalState{
			PerSecond: now.total(then), Unmatched: between(now.rules[""].flow, then.rules[""].flow, window),
			Waiting: now.waiting, Leases: now.leases, Leaves: stats.Leaves.Leaves, Assignments: stats.Leaves.Assignments,
		},
	}
	for i := range stats.Rules {
		r := &stats.Rules[i]
		st.Rules[i] = ruleStatus(r, now.rules[r.Rule.Name], then.rules[r.Rule.Name], window)
		st.Total.Memory += r.Memory
	}
	for _, n := range now.rules {
		st.Total.Count.add(n.flow, Flow[uint64]{})
	}
	if st.Words, st.Store = summary(&st), a.storeState(); st.Store != nil && st.Store.Away {
		st.Words = "The store of shared limits does not answer: decisions are degraded. " + st.Words
	}
	if st.Upstream = a.leafState(); st.Upstream != nil && st.Upstream.Away {
		st.Words = "The upstream of the limits does not answer: decisions are degraded. " + st.Words
	}
	if st.Peers = a.peersState(); st.Peers != nil && !st.Peers.Quorum {
		st.Words = "This instance sees half of its peers or less: it decides by its share of the limits. The rates do not include these decisions. " + st.Words
	}
	if err := a.cfg.Ready(); err != nil {
		st.Ready, st.NotReady = false, err.Error()
	}
	return st
}

func unmatched(st server.Stats) Flow[uint64] {
	f := Flow[uint64]{Allowed: st.UnmatchedAllowed, Denied: st.UnmatchedDenied}
	if f.Denied > 0 {
		f.Reasons = map[string]uint64{"unmatched": f.Denied}
	}
	return f
}

func (a *API) config(st server.Stats) ConfigState {
	rules := a.cfg.Server.Rules()
	c := ConfigState{
		Hash: rules.Hash, LoadedMS: st.Loaded.UnixMilli(), Reloads: st.Reloads,
		Apply: cmp.Or(string(rules.Apply), string(config.First)), Unmatched: cmp.Or(rules.Unmatched, "allow"),
	}
	if rules.Merge {
		c.Apply = "merge"
	}
	if a.cfg.ConfigStatus == nil {
		return c
	}
	from := a.cfg.ConfigStatus()
	c.Path, c.Hash = from.Path, cmp.Or(from.Hash, c.Hash)
	c.SuccessMS, c.FailureMS = unix(from.Success), unix(from.Failure)
	if from.Error != nil {
		c.Error = from.Error.Error()
	}
	return c
}

// unix converts an instant to milliseconds, the zero Time to 0.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func ruleStatus(r *server.RuleStats, now, then count, window time.Duration) RuleStatus {
	st := RuleStatus{
		RuleText: textOf(r.Rule.Ref), Queue: config.QueueSize(r.Rule.Queue), MaxWaitMS: r.Rule.MaxWait.Milliseconds(),
		Count: now.flow, PerSecond: between(now.flow, then.flow, window),
		Waiting: r.Waiting, Memory: r.Memory, Forgotten: r.Forgotten,
		WaitP50MS: waited(0.5, now, then, r.Rule.MaxWait), WaitP95MS: waited(0.95, now, then, r.Rule.MaxWait),
	}
	if c := r.Rule.Concurrency; c != nil {
		st.Leases = &Leases{
			Limit: c.Limit.String(), TTLMS: cmp.Or(c.TTL, config.DefaultTTL).Milliseconds(), Held: r.Leases.Held, Waiting: r.Leases.Waiting,
			Keys: r.Leases.Keys, Returned: r.Leases.Returned, Renewed: r.Leases.Renewed, Expired: r.Leases.Expired,
		}
	}
	return st
}

// waited returns a quantile of the recent waits, nil if there are none. If most is
// not zero, it bounds them: the buckets of the histogram are coarser.
func waited(q float64, now, then count, most time.Duration) *float64 {
	d, ok := quantile(q, now.waits, then.waits)
	if !ok {
		return nil
	}
	if most > 0 {
		d = min(d, most)
	}
	ms := float64(d.Microseconds()) / 1000
	return &ms
}

// busiest returns the n rules with the most recent refusals, then with the most
// allowed requests, in their original order.
func busiest(rules []RuleStatus, n int) []RuleStatus {
	places := make([]int, len(rules))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		x, y := &rules[a], &rules[b]
		return cmp.Or(
			cmp.Compare(y.PerSecond.rejected(), x.PerSecond.rejected()),
			cmp.Compare(y.Waiting, x.Waiting),
			cmp.Compare(y.PerSecond.Allowed, x.PerSecond.Allowed),
		)
	})
	slices.Sort(places[:n])
	var chosen []RuleStatus
	for _, i := range places[:n] {
		chosen = append(chosen, rules[i])
	}
	return chosen
}
