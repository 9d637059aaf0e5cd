package fleet

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
)

// A FieldError reports a field of a Scenario that is out of range. Field is its path in a
// file: keys[0].rate.
type FieldError = dist.FieldError

// Bounds of a scenario.
const (
	maxKeys    = 10_000
	maxRate    = 100_000_000
	maxPairs   = 10_000_000 // of leaves and keys
	maxSteps   = 100_000
	maxParts   = 1000 // demands, changes, faults
	maxTime    = 1000 * time.Hour
	maxChanges = 1_000_000 // of demands that are switched on and off
)

var keyName = regexp.MustCompile(`^[A-Za-z0-9]{1,50}$`)

// A checker keeps the first error.
type checker struct{ err error }

func (c *checker) check(fine bool, field string, value any, rule string, args ...any) {
	if !fine && c.err == nil {
		c.err = &FieldError{Field: field, Value: value, Rule: fmt.Sprintf(rule, args...)}
	}
}

func (c *checker) duration(field string, d time.Duration) {
	c.check(d >= 0 && d <= maxTime, field, d, "must be in [0, %v]", maxTime)
}

func (c *checker) number(field string, x float64) {
	c.check(x >= 0 && x <= 1e12, field, x, "must be in [0, 1e12]")
}

func (c *checker) oneOf(field, value string, all ...string) {
	c.check(value == "" || slices.Contains(all, value), field, strconv.Quote(value), "must be one of %s", strings.Join(all, ", "))
}

// Validate returns a *FieldError for a field that is out of range, or nil.
func (sc Scenario) Validate() error {
	c := &checker{}
	c.duration("duration", sc.Duration)
	c.check(sc.Duration >= slot, "duration", sc.Duration, "must be at least %v", slot)
	c.check(sc.Warmup >= 0 && sc.Warmup < sc.Duration, "warmup", sc.Warmup, "must be in [0, duration)")
	c.duration("step", sc.Step)
	c.check(sc.Step == 0 || sc.Duration/max(sc.Step, slot) <= maxSteps, "step", sc.Step, "there must be at most %d of them in duration", maxSteps)
	sc.checkFleet(c)
	sc.checkKeys(c)
	c.check(len(sc.Demand) > 0 && len(sc.Demand) <= maxParts, "demand", len(sc.Demand), "there must be 1 to %d", maxParts)
	names := map[string]bool{}
	for i := range sc.Demand {
		sc.checkDemand(c, fmt.Sprintf("demand[%d].", i), &sc.Demand[i], names)
	}
	if e, wrong := errors.AsType[*dist.FieldError](sc.Network.Delay.Validate()); wrong {
		c.check(false, "network.delay."+e.Field, e.Value, "%s", e.Rule)
	}
	c.check(sc.Network.Loss >= 0 && sc.Network.Loss < 1, "network.loss", sc.Network.Loss, "must be in [0, 1)")
	c.duration("network.timeout", sc.Network.Timeout)
	c.check(len(sc.Faults) <= maxParts, "faults", len(sc.Faults), "there must be at most %d", maxParts)
	for i := range sc.Faults {
		sc.checkFault(c, fmt.Sprintf("faults[%d].", i), &sc.Faults[i])
	}
	return c.err
}

func (sc *Scenario) checkFleet(c *checker) {
	f := &sc.Fleet
	c.check(f.Leaves >= 1 && f.Leaves <= maxLeaves, "fleet.leaves", f.Leaves, "must be in [1, %d]", maxLeaves)
	c.oneOf("fleet.policy", f.Policy, Policies...)
	c.duration("fleet.ttl", f.TTL)
	c.check(f.TTL == 0 || f.TTL >= time.Second, "fleet.ttl", f.TTL, "must be at least 1s")
	c.oneOf("fleet.away", f.Away, "deny", "allow", "share")
	c.oneOf("fleet.unassigned", f.Unassigned, "ask", "deny", "share")
	c.check(len(f.Watch) <= 16, "fleet.watch", len(f.Watch), "there must be at most 16")
	for i, leaf := range f.Watch {
		c.check(leaf >= 0 && leaf < f.Leaves, fmt.Sprintf("fleet.watch[%d]", i), leaf, "must be in [0, leaves = %d)", f.Leaves)
	}
}

func (sc *Scenario) checkKeys(c *checker) {
	c.check(len(sc.Keys) > 0 && len(sc.Keys) <= maxKeys, "keys", len(sc.Keys), "there must be 1 to %d", maxKeys)
	names, count := map[string]bool{}, 0
	for i, k := range sc.Keys {
		at := fmt.Sprintf("keys[%d].", i)
		c.check(keyName.MatchString(k.Name) && !names[k.Name], at+"name", strconv.Quote(k.Name), "must be of letters and digits, and given only once")
		names[k.Name] = true
		c.check(k.Count >= 0 && k.Count <= maxKeys, at+"count", k.Count, "must be in [0, %d]", maxKeys)
		count += min(max(k.Count, 1), maxKeys)
		c.check(count <= maxKeys && count*min(sc.Fleet.Leaves, maxLeaves) <= maxPairs, at+"count", k.Count,
			"there must be at most %d keys, and %d pairs of a leaf and a key", maxKeys, maxPairs)
		c.check(k.Rate >= 1 && k.Rate <= maxRate, at+"rate", k.Rate, "must be in [1, %d]", maxRate)
		c.check(k.Burst >= 1 && k.Burst <= maxRate, at+"burst", k.Burst, "must be in [1, %d]", maxRate)
	}
}

func (sc *Scenario) checkDemand(c *checker, at string, d *Demand, names map[string]bool) {
	c.check(d.Name == "" || !names[d.Name], at+"name", strconv.Quote(d.Name), "is given twice")
	names[d.Name] = true
	c.check(d.Key == "" || slices.ContainsFunc(sc.Keys, func(k Key) bool { return k.Name == d.Key }), at+"key", strconv.Quote(d.Key), "there is no such key")
	c.number(at+"rate", d.Rate)
	c.check(d.Rate > 0, at+"rate", d.Rate, "must be > 0")
	c.oneOf(at+"arrivals", d.Arrivals, "poisson", "even")
	c.check(math.Abs(d.LeafSkew) <= 10, at+"leaf_skew", d.LeafSkew, "must be in [-10, 10]")
	c.check(math.Abs(d.KeySkew) <= 10, at+"key_skew", d.KeySkew, "must be in [-10, 10]")
	sc.checkGroup(c, at, d.Group)
	c.duration(at+"from", d.From)
	c.duration(at+"until", d.Until)
	c.duration(at+"on", d.On)
	c.duration(at+"off", d.Off)
	c.check(d.On == 0 && d.Off == 0 || d.On > 0 && d.Off > 0 && sc.Duration/(d.On+d.Off) < maxChanges, at+"off", d.Off,
		"must be > 0 with on, and they must not alternate more than %d times", maxChanges)
	c.check(len(d.Changes) <= maxParts, at+"changes", len(d.Changes), "there must be at most %d", maxParts)
	before := time.Duration(0)
	for i, ch := range d.Changes {
		at := fmt.Sprintf("%schanges[%d].", at, i)
		c.duration(at+"at", ch.At)
		c.check(ch.At >= before, at+"at", ch.At, "must not be before the previous one")
		before = ch.At
		c.number(at+"factor", ch.Factor)
		sc.checkGroup(c, at, ch.Group)
	}
}

func (sc *Scenario) checkGroup(c *checker, at string, g Group) {
	c.check(g.First >= 0 && g.First < max(sc.Fleet.Leaves, 1), at+"first", g.First, "must be in [0, leaves = %d)", sc.Fleet.Leaves)
	c.check(g.Leaves >= 0 && g.Leaves <= maxLeaves, at+"leaves", g.Leaves, "must be in [0, %d]; 0 is all", maxLeaves)
	c.check(g.Every >= 0 && g.Every <= maxLeaves, at+"every", g.Every, "must be in [0, %d]", maxLeaves)
}

func (sc *Scenario) checkFault(c *checker, at string, f *Fault) {
	c.check(f.Kind != "", at+"kind", strconv.Quote(f.Kind), "must be given")
	c.oneOf(at+"kind", f.Kind, Partition, Upstream, Restart, Stop, Start)
	c.duration(at+"at", f.At)
	c.duration(at+"for", f.For)
	c.duration(at+"over", f.Over)
	sc.checkGroup(c, at, f.Group)
}

// key returns the key of a name; the first for an empty one.
func (sc *Scenario) key(name string) Key {
	for _, k := range sc.Keys {
		if name == "" || k.Name == name {
			return k
		}
	}
	return Key{}
}

// steadyEnd returns the end of the steady time, which begins at the end of the warmup: the first fault,
// or the first change of a demand after the warmup. There is no steady time, and it returns the end of
// the warmup, if a fault comes before it or a demand goes on and off.
func (sc *Scenario) steadyEnd() time.Duration {
	end := sc.Duration
	for _, f := range sc.Faults {
		end = min(end, f.At)
	}
	for i := range sc.Demand {
		d := &sc.Demand[i]
		for _, at := range []time.Duration{d.From, d.until()} {
			if at > sc.Warmup {
				end = min(end, at)
			}
		}
		for _, ch := range d.Changes {
			if ch.At > sc.Warmup {
				end = min(end, ch.At)
			}
		}
		if d.On > 0 {
			end = sc.Warmup
		}
	}
	return max(end, sc.Warmup)
}
