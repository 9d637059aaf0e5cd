package ratelimitfield

import "time"

// maxField bounds a field that is parsed, in bytes of all its lines. A longer
// one counts as malformed.
const maxField = 4 << 10

// forever bounds the durations that a field can name. It can be added to an
// instant without overflow.
const forever = 100 * 365 * 24 * time.Hour

// Quota units of draft-10, section 3.1.2.
const (
	UnitRequests   = "requests"
	UnitConcurrent = "concurrent-requests"
)

// A QuotaPolicy is an item of a RateLimit-Policy field (draft-10, section 3.1).
type QuotaPolicy struct {
	Name, Unit string
	Quota      int64
	Window     time.Duration // 0 if the field names none
}

// A ServiceLimit is an item of a RateLimit field (draft-10, section 4.1).
type ServiceLimit struct {
	Name, Partition string
	Remaining       int64
	Reset           time.Duration // negative if the field names none
}

// ParsePolicies returns the items of a RateLimit-Policy field. It returns none if
// any of them is malformed: "Malformed RateLimit header fields MUST be ignored"
// (draft-10, section 7).
func ParsePolicies(lines []string) []QuotaPolicy {
	list := parseField(lines)
	policies := make([]QuotaPolicy, 0, len(list))
	for _, i := range list {
		name, named := i.value.(string)
		unit, isText := param(i, "qu", UnitRequests)
		quota, counted := param(i, "q", int64(-1))
		window, timed := param(i, "w", int64(0))
		_, partitioned := param(i, "pk", []byte(nil))
		_, hasWindow := i.params["w"]
		if !named || !isText || !counted || quota < 0 || !timed || hasWindow && window < 1 || !partitioned {
			return nil
		}
		policies = append(policies, QuotaPolicy{Name: name, Unit: unit, Quota: quota, Window: Seconds(window)})
	}
	return policies
}

// ParseLimits returns the items of a RateLimit field, or none if any of them is
// malformed.
func ParseLimits(lines []string) []ServiceLimit {
	list := parseField(lines)
	limits := make([]ServiceLimit, 0, len(list))
	for _, i := range list {
		name, named := i.value.(string)
		remaining, counted := param(i, "r", int64(-1))
		reset, timed := param(i, "t", int64(0))
		partition, partitioned := param(i, "pk", []byte(nil))
		if !named || !counted || remaining < 0 || !timed || reset < 0 || !partitioned {
			return nil
		}
		l := ServiceLimit{Name: name, Partition: string(partition), Remaining: remaining, Reset: -1}
		if _, says := i.params["t"]; says {
			l.Reset = Seconds(reset)
		}
		limits = append(limits, l)
	}
	return limits
}

// Seconds returns n >= 0 seconds, at most 100 years.
func Seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(forever/time.Second))) * time.Second
}

func parseField(lines []string) []item {
	size := 0
	for _, line := range lines {
		size += len(line) + len(", ")
	}
	if size > maxField {
		return nil
	}
	items, _ := parseList(lines)
	return items
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
