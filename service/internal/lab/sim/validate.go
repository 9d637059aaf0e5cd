package sim

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/lab/dist"
	"github.com/weir-go/weir/service/internal/lab/pace"
)

// A FieldError reports a field of a Scenario that is out of range.
type FieldError struct {
	Field string // as a path in its file: layers[0].service_time.mean
	Value any
	Rule  string // what it must be
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("sim: %s = %v: %s", e.Field, e.Value, e.Rule)
}

// Bounds of a scenario.
const (
	maxWorkers = 1_000_000
	maxSteps   = 1_000_000
	maxTenants = 1000
	maxCalls   = 100
	maxLayers  = 16
	maxChanges = 1000
	maxFactor  = 1e6 // of service times

	// maxTime bounds every duration, so that sums do not overflow.
	maxTime = 10_000 * time.Hour
)

// A checker keeps the first error.
type checker struct{ err *FieldError }

func (c *checker) check(fine bool, field string, value any, rule string) {
	if !fine && c.err == nil {
		c.err = &FieldError{field, value, rule}
	}
}

// Validate returns a *FieldError for the first field that is out of range, or
// nil.
func (sc Scenario) Validate() error {
	c := &checker{}
	c.check(sc.Duration > 0 && sc.Duration <= maxTime, "duration", sc.Duration, fmt.Sprintf("must be in (0, %v]", maxTime))
	c.check(sc.Warmup >= 0 && sc.Warmup < sc.Duration, "warmup", sc.Warmup, "must be in [0, duration)")
	c.check(sc.Step >= 0 && sc.Step <= maxTime && (sc.Step == 0 || sc.Duration/sc.Step < maxSteps), "step", sc.Step,
		fmt.Sprintf("must be >= 0, and at most %d of them in duration", maxSteps))
	c.check(len(sc.Layers) > 0 && len(sc.Layers) <= maxLayers, "layers", len(sc.Layers), fmt.Sprintf("there must be 1 to %d", maxLayers))
	c.check(len(sc.Clients) > 0 && len(sc.Clients) <= maxTenants, "clients", len(sc.Clients), fmt.Sprintf("there must be 1 to %d", maxTenants))
	layers, clients, users := map[string]bool{}, map[string]bool{}, 0
	used := sc.used()
	for i := range sc.Layers {
		at := fmt.Sprintf("layers[%d].", i)
		c.checkName(at, sc.Layers[i].Name, layers)
		sc.Layers[i].check(c, at)
		sc.Layers[i].checkFaults(c, at, used)
		if g := sc.Layers[i].Guard; g != nil {
			g.Instances.check(c, at+"guard.instances", used)
		}
	}
	for i := range sc.Clients {
		at := fmt.Sprintf("clients[%d].", i)
		c.checkName(at, sc.Clients[i].Name, clients)
		sc.Clients[i].check(c, at, sc.Layers)
		users += min(sc.Clients[i].Users, maxWorkers)
		c.check(users <= maxWorkers, at+"users", sc.Clients[i].Users, fmt.Sprintf("must be at most %d with those of the clients before", maxWorkers))
	}
	if c.err != nil {
		return c.err
	}
	return nil
}

func (l *Layer) check(c *checker, at string) {
	c.check(l.Workers >= 0 && l.Workers <= maxWorkers, at+"workers", l.Workers, fmt.Sprintf("must be in [0, %d]; 0 is as many as come", maxWorkers))
	c.check(l.Queue == nil || *l.Queue >= 0, at+"queue", l.Queue, "must be >= 0")
	if l.Queue != nil {
		c.check(*l.Queue >= 0, at+"queue", *l.Queue, "must be >= 0")
	}
	c.check(!l.Sharing || l.Workers > 0, at+"workers", l.Workers, "must be >= 1 with sharing")
	c.checkTime(at+"service_time", l.ServiceTime)
	for name, class := range l.Classes {
		c.checkTime(at+"classes."+name, class.ServiceTime)
	}
	for _, f := range []struct {
		field  string
		factor float64
	}{{"sigma", l.Contention.Sigma}, {"kappa", l.Contention.Kappa}} {
		c.check(f.factor >= 0 && f.factor <= maxFactor, at+"contention."+f.field, f.factor, fmt.Sprintf("must be in [0, %.0e]", maxFactor))
	}
	p := l.Pause
	c.checkSpan(at+"pause.first", p.First)
	c.checkSpan(at+"pause.for", p.For)
	c.checkSpan(at+"pause.every", p.Every)
	c.check(p.Every == 0 || p.Every > p.For, at+"pause.every", p.Every, "must be greater than for")
	c.check(l.Calls >= 0 && l.Calls <= maxCalls, at+"calls", l.Calls, fmt.Sprintf("must be in [0, %d]", maxCalls))
	c.check(l.Attempts >= 0 && l.Attempts <= maxCalls, at+"attempts", l.Attempts, fmt.Sprintf("must be in [0, %d]", maxCalls))
	c.checkSpan(at+"timeout", l.Timeout)
	c.check(len(l.Changes) <= maxChanges, at+"changes", len(l.Changes), fmt.Sprintf("there must be at most %d", maxChanges))
	l.checkChanges(c, at)
	switch g := l.Guard; {
	case g == nil, g.Other != nil:
	case g.Rate != nil:
		g.Rate.check(c, at+"guard.rate.")
	default:
		_, err := g.Limit.algorithm()
		c.check(err == nil, at+"guard.limit", g.Limit.Name, rule(err))
		err = g.config().Validate()
		c.check(err == nil, at+"guard", "a rule of its queue", rule(err))
		c.check(g.Queue >= 0, at+"guard.queue", g.Queue, "must be >= 0")
		c.check(g.Depth >= 0, at+"guard.depth", g.Depth, "must be >= 0")
		c.checkSpan(at+"guard.brief", g.Brief)
		c.checkSpan(at+"guard.max_wait", g.MaxWait)
		c.checkSpan(at+"guard.target", g.Target)
		c.checkSpan(at+"guard.interval", g.Interval)
		c.checkSpan(at+"guard.aging", g.Aging)
	}
}

// checkChanges checks the changes, except those of faults.
func (l *Layer) checkChanges(c *checker, at string) {
	before := time.Duration(0)
	for i, ch := range l.Changes {
		at := fmt.Sprintf("%schanges[%d].", at, i)
		c.checkSpan(at+"at", ch.At)
		c.check(ch.At >= before, at+"at", ch.At, "must not be before the previous one")
		before = ch.At
		if ch.Slowdown != nil {
			c.check(*ch.Slowdown > 0 && *ch.Slowdown <= maxFactor, at+"slowdown", *ch.Slowdown, fmt.Sprintf("must be in (0, %.0e]", maxFactor))
		}
		if ch.Workers != nil {
			c.check(*ch.Workers >= 1 && *ch.Workers <= maxWorkers, at+"workers", *ch.Workers, fmt.Sprintf("must be in [1, %d]", maxWorkers))
		}
	}
}

// maxRate bounds a Rate.
const maxRate = 1e9

func (r *Rate) check(c *checker, at string) {
	c.check(r.PerSecond > 0 && r.PerSecond <= maxRate, at+"per_second", r.PerSecond, fmt.Sprintf("must be in (0, %.0e]", maxRate))
	c.check(r.Burst >= 0 && r.Burst <= maxWorkers, at+"burst", r.Burst, fmt.Sprintf("must be in [0, %d]", maxWorkers))
	c.checkSpan(at+"max_wait", r.MaxWait)
	c.check(!r.Mute || r.MaxWait > 0, at+"max_wait", r.MaxWait, "must be > 0 with mute")
}

// rule returns the message of an error of another package, without its prefix.
func rule(err error) string {
	if err == nil {
		return ""
	}
	_, text, found := strings.Cut(err.Error(), ": ")
	if !found {
		return err.Error()
	}
	return text
}

func (cl *Client) check(c *checker, at string, layers []Layer) {
	c.check((cl.Rate != "") != (cl.Users > 0), at+"rate", strconv.Quote(cl.Rate), "must be given for an open loop, or else users >= 1 for a closed one")
	c.check(cl.Users >= 0 && cl.Users <= maxWorkers, at+"users", cl.Users, fmt.Sprintf("must be in [0, %d]", maxWorkers))
	if cl.Rate != "" {
		_, err := pace.Parse(cl.Rate)
		c.check(err == nil, at+"rate", strconv.Quote(cl.Rate), rule(err))
	}
	c.check(cl.Arrivals == "" || cl.Arrivals == "poisson" || cl.Arrivals == "even", at+"arrivals", strconv.Quote(cl.Arrivals), "must be poisson or even")
	c.check(cl.Burst == Burst{} || cl.Burst.For > 0 && cl.Burst.For <= cl.Burst.Every, at+"burst.for", cl.Burst.For, "must be in (0, every]")
	c.checkTime(at+"think", cl.Think)
	for _, d := range []struct {
		field string
		d     time.Duration
	}{{"pause", cl.Pause}, {"timeout", cl.Timeout}, {"deadline", cl.Deadline},
		{"retry.backoff", cl.Retry.Backoff}, {"retry.max_backoff", cl.Retry.MaxBackoff}, {"burst.every", cl.Burst.Every}} {
		c.checkSpan(at+d.field, d.d)
	}
	c.check(cl.Retry.Attempts >= 0 && cl.Retry.Attempts <= maxCalls, at+"retry.attempts", cl.Retry.Attempts, fmt.Sprintf("must be in [0, %d]", maxCalls))
	if b := cl.Retry.Budget; b != nil {
		err := b.Validate()
		c.check(err == nil, at+"retry.budget", b.Ratio, rule(err))
	}
	if t := cl.Throttle; t != nil {
		err := t.Validate()
		c.check(err == nil, at+"throttle", t.K, rule(err))
	}
	c.check(cl.Tenants >= 0 && cl.Tenants <= maxTenants, at+"tenants", cl.Tenants, fmt.Sprintf("must be in [0, %d]", maxTenants))
	c.check(cl.Weight >= 0 && cl.Weight <= maxWorkers, at+"weight", cl.Weight, fmt.Sprintf("must be in [0, %d]", maxWorkers))
	c.check(cl.Partition >= 0 && cl.Partition <= maxWorkers, at+"partition", cl.Partition, fmt.Sprintf("must be in [0, %d]", maxWorkers))
	c.check(cl.Units >= 0 && cl.Units <= maxWorkers, at+"units", cl.Units, fmt.Sprintf("must be in [0, %d]", maxWorkers))
	sum := 0.0
	for i, share := range cl.Mix {
		at := fmt.Sprintf("%smix[%d].", at, i)
		c.check(share.Share >= 0 && !math.IsInf(share.Share, 1), at+"share", share.Share, "must be >= 0")
		sum += share.Share
		known := false
		for _, l := range layers {
			_, named := l.Classes[share.Class]
			known = known || named
		}
		c.check(share.Class == "" || known, at+"class", strconv.Quote(share.Class), "no layer has a service time for this class")
	}
	c.check(len(cl.Mix) == 0 || sum > 0, at+"mix", sum, "the shares must not all be 0")
	c.check(cl.Users == 0 || cl.Think.Mean > 0 || cl.works(layers), at+"think.mean", cl.Think.Mean,
		"must be > 0 if no layer has a service time: calls would follow each other in no time")
}

// works reports whether any layer takes time for any of the client's calls.
func (cl *Client) works(layers []Layer) bool {
	mix := cl.Mix
	if len(mix) == 0 {
		mix = []Share{{Share: 1}}
	}
	for _, l := range layers {
		for _, share := range mix {
			if share.Share > 0 && l.class(share.Class).Mean > 0 {
				return true
			}
		}
	}
	return false
}

func (c *checker) checkSpan(field string, d time.Duration) {
	c.check(d >= 0 && d <= maxTime, field, d, fmt.Sprintf("must be in [0, %v]", maxTime))
}

// checkName checks that a name, if there is one, is not taken.
func (c *checker) checkName(at, name string, taken map[string]bool) {
	c.check(name == "" || !taken[name], at+"name", strconv.Quote(name), "is given twice")
	taken[name] = true
}

func (c *checker) checkTime(field string, t dist.ServiceTime) {
	if e, wrong := errors.AsType[*dist.FieldError](t.Validate()); wrong {
		c.check(false, field+"."+e.Field, e.Value, e.Rule)
	}
}
