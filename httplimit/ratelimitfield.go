package httplimit

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Bounds on fields from a server, before they are parsed and after.
const (
	maxField = 4 << 10 // bytes of all lines of a field
	maxItems = 16
)

// A serviceLimit is an item of a RateLimit field
// (draft-ietf-httpapi-ratelimit-headers-10, section 4.1).
type serviceLimit struct {
	name, partition string
	remaining       int64
	reset           time.Duration // negative if the server does not say
}

// parseRateLimit returns the items of a RateLimit field. There are none if
// anything in it is malformed: "Malformed RateLimit header fields MUST be
// ignored" (section 7).
func parseRateLimit(lines []string) []serviceLimit {
	list := parseItems(lines)
	limits := make([]serviceLimit, 0, len(list))
	for _, i := range list {
		l := serviceLimit{reset: -1}
		var named, limited, timed, apart bool
		l.name, named = i.Value.(string)
		l.remaining, limited = integer(i, "r", 0)
		if !named || !limited {
			return nil
		}
		if _, says := i.Params.Get("t"); says {
			var t int64
			if t, timed = integer(i, "t", 0); !timed {
				return nil
			}
			l.reset = delaySeconds(t)
		}
		if l.partition, apart = partition(i); !apart {
			return nil
		}
		limits = append(limits, l)
	}
	return limits
}

// A quotaPolicy is an item of a RateLimit-Policy field (section 3.1).
type quotaPolicy struct {
	name, unit string
	quota      int64
	window     time.Duration // 0 if the server does not say
}

// Quota units of section 3.1.2.
const (
	unitRequests   = "requests"
	unitConcurrent = "concurrent-requests"
)

// parsePolicies returns the items of a RateLimit-Policy field; none if anything
// in it is malformed.
func parsePolicies(lines []string) []quotaPolicy {
	list := parseItems(lines)
	policies := make([]quotaPolicy, 0, len(list))
	for _, i := range list {
		p := quotaPolicy{unit: unitRequests}
		var named, limited, ok bool
		p.name, named = i.Value.(string)
		p.quota, limited = integer(i, "q", 0)
		if !named || !limited {
			return nil
		}
		if unit, says := i.Params.Get("qu"); says {
			if p.unit, ok = unit.(string); !ok {
				return nil
			}
		}
		if _, says := i.Params.Get("w"); says {
			w, ok := integer(i, "w", 1)
			if !ok {
				return nil
			}
			p.window = delaySeconds(w)
		}
		if _, ok = partition(i); !ok {
			return nil
		}
		policies = append(policies, p)
	}
	return policies
}

// parseItems returns the members of a list, if it is one of nothing but items,
// and within bounds.
func parseItems(lines []string) []httpsfv.Item {
	size := 0
	for _, line := range lines {
		size += len(line) + len(", ")
	}
	if size == 0 || size > maxField {
		return nil
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) > maxItems {
		return nil
	}
	items := make([]httpsfv.Item, len(list))
	for n, member := range list {
		i, ok := member.(httpsfv.Item)
		if !ok {
			return nil
		}
		items[n] = i
	}
	return items
}

// integer returns a parameter that is an Integer and no less than least.
func integer(i httpsfv.Item, name string, least int64) (int64, bool) {
	v, _ := i.Params.Get(name)
	n, ok := v.(int64)
	return n, ok && n >= least
}

// partition returns the partition key, "" if there is none.
func partition(i httpsfv.Item) (key string, ok bool) {
	v, says := i.Params.Get("pk")
	if !says {
		return "", true
	}
	b, ok := v.([]byte)
	return string(b), ok
}

// forever is longer than anybody waits, and can be added to an instant.
const forever = 100 * 365 * 24 * time.Hour

// delaySeconds returns n >= 0 seconds, at most forever.
func delaySeconds(n int64) time.Duration {
	return time.Duration(min(n, int64(forever/time.Second))) * time.Second
}

// parseRetryAfter returns how long a response received now asks to wait, in
// either form of RFC 9110, section 10.2.3. A date is taken by the clock of who
// sent it, if the response has a Date; one that has passed is no wait. If ok
// is false, there is no Retry-After, or it is malformed.
func parseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	lines := h["Retry-After"]
	if len(lines) != 1 {
		return 0, false
	}
	value := textproto.TrimString(lines[0])
	if value != "" && strings.Trim(value, "0123456789") == "" {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil { // it overflows
			return forever, true
		}
		return delaySeconds(n), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), forever), true
}

// fromCache reports whether a response comes from a cache: what it says of
// limits was said to somebody else (section 7.3).
func fromCache(h http.Header) bool {
	age := h.Get("Age")
	return age != "" && strings.Trim(age, "0 ") != ""
}
