package config

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/weir-go/weir/service/internal/bytesize"
)

// rule checks one rule.
func (c *checker) rule(path string, r *Rule) {
	c.check(r.Per == "" || r.Per == PerKey || r.Per == PerRule, path+".per", string(r.Per), "must be key or rule")
	c.check(r.Mode == "" || r.Mode == Enforce || r.Mode == Shadow || r.Mode == Off, path+".mode", string(r.Mode), "must be enforce, shadow or off")
	c.check(r.Away == "" || r.Away == AwayDeny || r.Away == AwayAllow || r.Away == AwayShare, path+".away", string(r.Away), "must be deny, allow or share")
	c.check(r.Unassigned == "" || r.Unassigned == UnassignedAsk || r.Unassigned == UnassignedShare || r.Unassigned == UnassignedDeny,
		path+".unassigned", string(r.Unassigned), "must be ask, share or deny")
	c.quota(path, r.Quota)
	switch {
	case r.Rate != Rate{}:
		c.optional(path+".queue", r.Queue, maxQueue)
		c.optional(path+".max_debt", r.MaxDebt, maxCount)
		c.memory(path+".memory", r)
		c.maxWait(path+".max_wait", r.MaxWait)
	case r.Descriptor != nil && r.Descriptor.Unlimited:
	case r.Concurrency == nil:
		c.check(false, path, nil, "must have a rate, such as 100/s, or a concurrency, or both")
	default:
		c.unrated(path, r)
	}
	if r.Concurrency != nil {
		c.concurrency(path+".concurrency", r.Concurrency)
	}
	if r.Candidate != nil {
		c.check(r.Candidate.Rate != Rate{}, path+".candidate.rate", nil, "must be given, such as 100/s")
		c.quota(path+".candidate", *r.Candidate)
	}
}

func (c *checker) quota(path string, q Quota) {
	if (q.Rate != Rate{}) {
		c.rate(path+".rate", q.Rate)
	}
	burst := has(c, path+".burst", q.Burst)
	if q.Algorithm != Calendar {
		c.check(q.Rate.Period != Month, path+".rate", q.Rate, "must have another period but with algorithm calendar: months differ in length")
		c.check(q.Zone == "", path+".zone", q.Zone, "must be left out but with algorithm calendar")
	}
	switch q.Algorithm {
	case "", GCRA:
		if burst {
			c.within(path+".burst", q.Burst, 1, maxCount)
		}
	case FixedWindow: // of files of envoyproxy/ratelimit
	case Fixed, Sliding:
		c.check(!burst, path+".burst", q.Burst, fmt.Sprintf("must be left out: with algorithm %s, the rate's count is all there is", q.Algorithm))
	case Calendar:
		c.check(!burst, path+".burst", q.Burst, "must be left out: with algorithm calendar, the rate's count is all there is")
		c.check(q.Rate == Rate{} || q.Unit() != "", path+".rate", q.Rate, "must have a period of the calendar with algorithm calendar: minute, hour, day, week or month")
		_, err := q.Location()
		c.check(err == nil, path+".zone", q.Zone, "must be a time zone, such as Europe/Berlin, or left out for UTC")
	default:
		c.check(false, path+".algorithm", string(q.Algorithm), "must be gcra, fixed, sliding or calendar")
	}
}

func (c *checker) rate(path string, r Rate) {
	c.check(r.Count >= 0 && int64(r.Count) <= maxCount, path, r, fmt.Sprintf("must have a count from 0 to %d", int64(maxCount)))
	c.check(r.Period >= minPeriod && r.Period <= maxPeriod, path, r, fmt.Sprintf("must have a period from %v to %s", minPeriod, periodText(maxPeriod)))
}

func (c *checker) memory(path string, r *Rule) {
	if has(c, path, r.Memory) {
		c.check(r.Memory >= minMemory && r.Memory <= maxMemory, path, r.Memory, fmt.Sprintf("must be from %v to %v", bytesize.Size(minMemory), bytesize.Size(maxMemory)))
		c.check(r.Key == "" && r.Per != PerRule, path, nil, "must be left out: the rule has a single bucket")
	}
}

// maxWait checks the bound of a wait.
func (c *checker) maxWait(path string, d time.Duration) {
	if has(c, path, d) {
		c.check(d > 0, path, d, "must be > 0: with queue: 0, no request waits")
	}
}

// unrated rejects fields that have no effect without a rate.
func (c *checker) unrated(path string, r *Rule) {
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"burst", has(c, path+".burst", r.Burst)}, {"algorithm", r.Algorithm != ""}, {"max_debt", r.MaxDebt != nil},
		{"memory", has(c, path+".memory", r.Memory)}, {"own_quota", r.OwnQuota}, {"candidate", r.Candidate != nil}, {"unassigned", r.Unassigned != ""},
	} {
		c.check(!field.given, path+"."+field.name, nil, "must be left out without a rate")
	}
	c.check(r.Queue == nil, path+".queue", nil, "must be left out without a rate: the queue for leases is concurrency.queue")
	c.check(!has(c, path+".max_wait", r.MaxWait), path+".max_wait", nil, "must be left out without a rate: the wait for leases is concurrency.max_wait")
}

func (c *checker) concurrency(path string, l *Concurrency) {
	if l.Limit == Auto {
		least, most := orDefault(c, path+".min", l.Min, 1), orDefault(c, path+".max", l.Max, 1000)
		c.within(path+".min", least, 1, maxUnits)
		c.within(path+".max", most, 1, maxUnits)
		c.check(least <= most, path+".min", least, fmt.Sprintf("must be at most max, which is %d", most))
	} else {
		c.within(path+".limit", int(l.Limit), 1, maxUnits)
		c.check(!has(c, path+".min", l.Min), path+".min", l.Min, "must be left out but with limit: auto")
		c.check(!has(c, path+".max", l.Max), path+".max", l.Max, "must be left out but with limit: auto")
	}
	c.optional(path+".queue", l.Queue, maxQueue)
	c.maxWait(path+".max_wait", l.MaxWait)
	ttl := orDefault(c, path+".ttl", l.TTL, DefaultTTL)
	c.check(ttl >= time.Millisecond && ttl <= maxTTL, path+".ttl", l.TTL, fmt.Sprintf("must be from 1ms to %v", maxTTL))
	c.check(!has(c, path+".max_ttl", l.MaxTTL) || l.MaxTTL >= ttl && l.MaxTTL <= 10*maxTTL, path+".max_ttl", l.MaxTTL,
		fmt.Sprintf("must be from ttl, which is %v, to %v", ttl, 10*maxTTL))
}

// layer checks a rule that overlays others.
func (c *checker) layer(path string, r *Rule) {
	rest := *r
	rest.Name, rest.Key, rest.Glob, rest.Regex, rest.Rate, rest.Queue = "", "", "", "", Rate{}, nil
	rest.Domain, rest.Entries = "", nil
	c.check(reflect.DeepEqual(rest, Rule{}), path, nil, "must have no more than a pattern, a rate and a queue")
	c.rate(path+".rate", Rate{r.Rate.Count, cmp.Or(r.Rate.Period, minPeriod)})
	c.optional(path+".queue", r.Queue, maxQueue)
}

// boundWaits sets the bounds of waits that the rule leaves out.
func (r *Rule) boundWaits() {
	if r.Rated() && r.MaxWait == 0 {
		r.MaxWait = DefaultMaxWait
	}
	if r.Concurrency != nil && r.Concurrency.MaxWait == 0 {
		bounded := *r.Concurrency
		bounded.MaxWait, r.Concurrency = DefaultMaxWait, &bounded
	}
}
