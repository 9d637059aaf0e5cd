package httpapi

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// A param is a set of parameters of the query.
type param uint16

const (
	paramCanWait param = 1 << iota
	paramN
	paramTimeout
	paramMaxRequests
	paramMaxRequestsInQueue
	paramTTL
	paramOutcome
	paramAll
	paramIDs
	paramAtMost
	paramIK     // that the instances of GoCC send to each other; it has no meaning here
	paramsOfAny // whatever the query has is ignored
)

// Parameters of endpoints.
const (
	ofRate  = paramCanWait | paramN | paramAtMost | paramTimeout | paramMaxRequests | paramMaxRequestsInQueue | paramIK
	ofLease = paramCanWait | paramN | paramTimeout | paramTTL
)

// params has the values of a query. A parameter without a value is not in valued.
type params struct {
	given, valued param

	canWait, all, ids        bool
	atMost                   bool
	n, maxRequests, maxQueue int
	timeout, ttl             time.Duration
	outcome                  weir.Outcome
}

// paramNames are the names of parameters, in the order in which answers and documents list them.
var paramNames = []struct {
	name  string
	which param
}{
	{"canWait", paramCanWait}, {"n", paramN}, {"atMost", paramAtMost}, {"ttl", paramTTL}, {"timeout", paramTimeout},
	{"maxRequests", paramMaxRequests}, {"maxRequestsInQueue", paramMaxRequestsInQueue},
	{"ik", paramIK}, {"outcome", paramOutcome}, {"all", paramAll}, {"ids", paramIDs},
}

// named returns a parameter by its name, 0 if there is none.
func named(name string) param {
	for i := range paramNames {
		if p := &paramNames[i]; p.name == name {
			return p.which
		}
	}
	return 0
}

// names returns the names of a set of parameters.
func (p param) names() (list []string) {
	for _, known := range paramNames {
		if p&known.which != 0 {
			list = append(list, known.name)
		}
	}
	return list
}

// field returns a pointer to the field of a parameter.
func (p *params) field(which param) any {
	switch which {
	case paramCanWait:
		return &p.canWait
	case paramN:
		return &p.n
	case paramTimeout:
		return &p.timeout
	case paramMaxRequests:
		return &p.maxRequests
	case paramMaxRequestsInQueue:
		return &p.maxQueue
	case paramTTL:
		return &p.ttl
	case paramOutcome:
		return &p.outcome
	case paramAll:
		return &p.all
	case paramIDs:
		return &p.ids
	}
	return &p.atMost
}

// maxNamed bounds the part of an unknown name that an answer repeats, in bytes.
const maxNamed = 40

// parse reads the parameters of a query. One that the endpoint does not have is an error, because a
// request without it may be another than its sender means. So is one that is given twice.
func (p *params) parse(query string, wanted param) *fault {
	if wanted == paramsOfAny {
		return nil
	}
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return badEscape
		}
		which := named(name)
		if which&wanted == 0 {
			return unknownParam(name, wanted)
		}
		if p.given&which != 0 {
			return bad("%s is given twice", name)
		}
		p.given |= which
		if value, err = url.QueryUnescape(value); err != nil {
			return badEscape
		}
		if value = strings.TrimSpace(value); value == "" || which == paramIK {
			continue
		}
		p.valued |= which
		if ok, want := set(p.field(which), value); !ok || which == paramTTL && p.ttl == 0 {
			return bad("cannot read %s: it must be %s", name, want)
		}
		if which == paramTTL && p.ttl < time.Millisecond {
			return bad("ttl = %s: must be at least 1ms", value)
		}
	}
	return nil
}

// unknownParam returns the fault of a parameter that an endpoint does not have.
func unknownParam(name string, wanted param) *fault {
	if len(name) > maxNamed {
		name = name[:maxNamed] + "…"
	}
	if wanted == 0 {
		return bad("unknown parameter %q: this method of this path has none", name)
	}
	return bad("unknown parameter %q: this method of this path has %s", name, strings.Join(wanted.names(), ", "))
}

// wantDuration describes the values of a duration.
const wantDuration = "a duration such as 1.5s or 200ms, or seconds"

// set sets the field of a parameter. want describes its values.
func set(field any, value string) (ok bool, want string) {
	switch field := field.(type) {
	case *bool:
		b, err := strconv.ParseBool(value)
		*field = b
		return err == nil, "true or false"
	case *int:
		n, err := strconv.ParseInt(value, 10, 32)
		*field = int(n)
		return err == nil && n >= 0, "a whole number from 0 to 2147483647"
	case *time.Duration:
		*field, ok = duration(value)
		return ok, wantDuration
	case *weir.Outcome:
		for o := range outcome.Count {
			if o.String() == value {
				*field, ok = o, true
			}
		}
	}
	return ok, "success, dropped, ignored, timed_out, left, late or gone"
}

// duration reads a Go duration, or seconds.
func duration(value string) (time.Duration, bool) {
	if strings.TrimRight(value, "0123456789.") != value {
		value += "s"
	}
	d, err := time.ParseDuration(value)
	return d, err == nil && d >= 0
}
