package query

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// FuzzQuery compares with net/url, where that finds nothing wrong.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{"", "n=1", "n=%31&canWait=true", "canWait=+1+&x=%zz", "n=1&n=2", "%6e=3", "timeout=1.5&ttl=2m", "=&=&&", "n", "n=1;canWait=1", "n=%", "outcome=late&all=T&ids=f", "atMost=1&&", strings.Repeat("&", 31)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, query string) {
		var p Params
		wrong := p.Parse(query, OfAny-1)
		values, err := url.ParseQuery(query)
		if err != nil || wrong != nil {
			return
		}
		for name, all := range values {
			if named(name) == 0 || len(all) > 1 {
				t.Errorf("%q: %q came %d times", query, name, len(all))
			}
		}
		for _, name := range []string{"canWait", "n", "timeout", "maxRequests", "maxRequestsInQueue", "ttl", "outcome", "all", "ids", "atMost", "ik"} {
			if (p.Given&named(name) != 0) != values.Has(name) || (p.Valued&named(name) != 0) != (name != "ik" && strings.TrimSpace(values.Get(name)) != "") {
				t.Errorf("%q: %s: given %b, valued %b", query, name, p.Given, p.Valued)
			}
		}
		if want, err := strconv.Atoi(strings.TrimSpace(values.Get("n"))); err == nil && p.N != want {
			t.Errorf("%q: n is %d: want %d", query, p.N, want)
		}
		if p.N < 0 || p.N > math.MaxInt32 || p.Timeout < 0 || p.TTL < 0 || p.Valued&TTL != 0 && p.TTL == 0 {
			t.Errorf("%q: %+v", query, p)
		}
	})
}
