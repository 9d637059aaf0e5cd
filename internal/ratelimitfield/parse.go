package ratelimitfield

import (
	"math"
	"time"
)

// maxField bounds a field that is parsed, in bytes of all its lines. A longer
// one counts as malformed.
const maxField = 4 << 10

// maxWait bounds the durations that a field can name. It can be added to an
// instant without overflow.
const maxWait = 100 * 365 * 24 * time.Hour

// sinceEpoch is the least RateLimit-Reset, in seconds, that counts as a time since 1970: 10 years.
const sinceEpoch = 10 * 365 * 24 * 3600

// Quota units of draft-11, section 3.1.2.
const (
	UnitRequests   = "requests"
	UnitConcurrent = "concurrent-requests"
)

// A QuotaPolicy is an item of a RateLimit-Policy field (draft-11, section 3.1). Until
// draft-07, it had no name.
type QuotaPolicy struct {
	Name, Unit string
	Quota      int64
	Window     time.Duration // 0 if the field names none
}

// A ServiceLimit is an item of a RateLimit field (draft-11, section 4.1), or says the same by
// the fields of an earlier draft, which have no name.
type ServiceLimit struct {
	Name, Partition string
	Quota           int64 // of its policy, if that has no name; otherwise 0
	Remaining       int64
	Reset           time.Duration // negative if the field names none
}

// Limits returns the limits that an answer of a date tells by
//
//   - RateLimit, as since draft-08, or with the parameters a and w in place of r and t;
//   - or else RateLimit, as in draft-07: limit=100, remaining=50, reset=30;
//   - or else RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, until draft-06. Of
//     numbers that proxies have added, the strictest counts. Some servers write the time of the
//     reset since 1970.
//
// There are none if the fields are malformed.
func Limits(h map[string][]string, date func() time.Time) []ServiceLimit {
	if lines := h["Ratelimit"]; len(lines) > 0 && size(lines) <= maxField {
		if limits := ParseLimits(lines); len(limits) > 0 {
			return limits
		}
		if members, ok := parseDictionary(lines); ok {
			return unnamed(members["limit"], members["remaining"], members["reset"], date)
		}
	}
	if len(h["Ratelimit-Remaining"]) == 0 {
		return nil
	}
	return unnamed(first(h["Ratelimit-Limit"]), least(h["Ratelimit-Remaining"], 1), least(h["Ratelimit-Reset"], -1), date)
}

// PolicyLines returns the lines of an answer that ParsePolicies reads: RateLimit-Policy or, of
// draft-03 and earlier, RateLimit-Limit.
func PolicyLines(h map[string][]string) []string {
	if lines := h["Ratelimit-Policy"]; len(lines) > 0 {
		return lines
	}
	return h["Ratelimit-Limit"]
}

// unnamed returns the limit of an earlier draft, if the number of remaining units is given.
func unnamed(limit, remaining, reset item, date func() time.Time) []ServiceLimit {
	left, ok := number(remaining)
	if !ok {
		return nil
	}
	l := ServiceLimit{Remaining: int64(left), Reset: -1}
	if quota, ok := number(limit); ok {
		l.Quota = int64(quota)
	}
	if after, ok := number(reset); ok {
		if after >= sinceEpoch {
			after = max(time.Unix(int64(min(after, most)), 0).Sub(date()).Seconds(), 0)
		}
		l.Reset = Seconds(int64(math.Ceil(after)))
	}
	return []ServiceLimit{l}
}

// number returns a number >= 0, which may have a fraction.
func number(i item) (x float64, ok bool) {
	switch v := i.value.(type) {
	case int64:
		x, ok = float64(v), true
	case float64:
		x, ok = v, true
	}
	return x, ok && x >= 0
}

// first returns the first item of a field, which is no number if the field is malformed.
func first(lines []string) item {
	if items := parseField(lines); len(items) > 0 {
		return items[0]
	}
	return item{}
}

// least returns the item of a field with the least number times a sign: if proxies have
// added to it, the strictest one. It is no number if any of them is none.
func least(lines []string, sign float64) item {
	best := first(lines)
	for _, i := range parseField(lines) {
		x, ok := number(i)
		if !ok {
			return item{}
		}
		if y, _ := number(best); x*sign < y*sign {
			best = i
		}
	}
	return best
}

// ParsePolicies returns the items of a RateLimit-Policy field. It returns none if
// any of them is malformed: "Malformed RateLimit header fields MUST be ignored"
// (draft-11, section 7). Items of draft-07 and earlier are a quota, as in 100;w=60. Those
// without a window say nothing else, and are left out.
func ParsePolicies(lines []string) []QuotaPolicy {
	list := parseField(lines)
	policies := make([]QuotaPolicy, 0, len(list))
	for _, i := range list {
		window, timed := param(i, "w", int64(0))
		_, hasWindow := i.params["w"]
		if !timed || hasWindow && window < 1 {
			return nil
		}
		if quota, old := i.value.(int64); old && quota >= 0 {
			if hasWindow {
				policies = append(policies, QuotaPolicy{Unit: UnitRequests, Quota: quota, Window: Seconds(window)})
			}
			continue
		}
		name, named := i.value.(string)
		unit, isText := param(i, "qu", UnitRequests)
		quota, counted := param(i, "q", int64(-1))
		_, partitioned := param(i, "pk", []byte(nil))
		if !named || !isText || !counted || quota < 0 || !partitioned {
			return nil
		}
		policies = append(policies, QuotaPolicy{Name: name, Unit: unit, Quota: quota, Window: Seconds(window)})
	}
	return policies
}

// ParseLimits returns the items of a RateLimit field, or none if any of them is
// malformed. An item tells the units left as r, and the time until there are more as t. A later
// draft may call them a and w. If an item has both, the stricter one counts.
func ParseLimits(lines []string) []ServiceLimit {
	list := parseField(lines)
	limits := make([]ServiceLimit, 0, len(list))
	for _, i := range list {
		name, named := i.value.(string)
		partition, partitioned := param(i, "pk", []byte(nil))
		if !named || !partitioned {
			return nil
		}
		l := ServiceLimit{Name: name, Partition: string(partition), Remaining: -1, Reset: -1}
		if !l.read(i, "r", "t") || !l.read(i, "a", "w") || l.Remaining < 0 {
			return nil
		}
		limits = append(limits, l)
	}
	return limits
}

// read reads the parameters with the units left and the time, and reports whether they are well
// formed. Without the first, the other one is a comment.
func (l *ServiceLimit) read(i item, left, more string) (ok bool) {
	if _, says := i.params[left]; !says {
		return true
	}
	remaining, counted := param(i, left, int64(-1))
	reset, timed := param(i, more, int64(0))
	if !counted || remaining < 0 || !timed || reset < 0 {
		return false
	}
	if l.Remaining < 0 || remaining < l.Remaining {
		l.Remaining = remaining
	}
	if _, says := i.params[more]; says {
		l.Reset = max(l.Reset, Seconds(reset))
	}
	return true
}

// Seconds returns n >= 0 seconds, at most 100 years.
func Seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(maxWait/time.Second))) * time.Second
}

func parseField(lines []string) []item {
	if size(lines) > maxField {
		return nil
	}
	if items, ok := parseList(lines); ok {
		return items
	}
	return nil
}

func size(lines []string) (n int) {
	for _, line := range lines {
		n += len(line) + len(", ")
	}
	return n
}

// param returns a parameter of the type of otherwise, or otherwise if there is
// none. ok is false if the parameter has another type.
func param[T any](i item, name string, otherwise T) (value T, ok bool) {
	v, says := i.params[name]
	if !says {
		return otherwise, true
	}
	value, ok = v.(T)
	return value, ok
}
