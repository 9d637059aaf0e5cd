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
)

// Parameters of endpoints.
const (
	ofRate  = paramCanWait | paramN | paramAtMost | paramTimeout | paramMaxRequests | paramMaxRequestsInQueue
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

// named returns a parameter by its name, 0 if there is none, and a pointer to its field.
func (p *params) named(name string) (which param, field any) {
	switch name {
	case "canWait":
		return paramCanWait, &p.canWait
	case "n":
		return paramN, &p.n
	case "timeout":
		return paramTimeout, &p.timeout
	case "maxRequests":
		return paramMaxRequests, &p.maxRequests
	case "maxRequestsInQueue":
		return paramMaxRequestsInQueue, &p.maxQueue
	case "ttl":
		return paramTTL, &p.ttl
	case "outcome":
		return paramOutcome, &p.outcome
	case "all":
		return paramAll, &p.all
	case "ids":
		return paramIDs, &p.ids
	case "atMost":
		return paramAtMost, &p.atMost
	}
	return 0, nil
}

// maxParams bounds the parameters of a query.
const maxParams = 32

// parse reads the wanted parameters of a query. Others are ignored, as GoCC ignores
// them. A parameter that is given twice is an error because it is ambiguous.
func (p *params) parse(query string, wanted param) *fault {
	for n := 0; query != ""; n++ {
		if n == maxParams {
			return manyParams
		}
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return badEscape
		}
		which, field := p.named(name)
		if which&wanted == 0 {
			continue
		}
		if p.given&which != 0 {
			return bad("%s is given twice", name)
		}
		p.given |= which
		if value, err = url.QueryUnescape(value); err != nil {
			return badEscape
		}
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		p.valued |= which
		if ok, want := set(field, value); !ok || which == paramTTL && p.ttl == 0 {
			return bad("cannot read %s: it must be %s", name, want)
		}
		if which == paramTTL && p.ttl < time.Millisecond {
			return bad("ttl = %s: must be at least 1ms", value)
		}
	}
	return nil
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
