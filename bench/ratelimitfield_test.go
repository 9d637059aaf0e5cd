package bench

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/weir/internal/ratelimitfield"
)

// fields are the seeds of the differential test, which mutates them.
var fields = []string{
	`"default";r=50;t=30`,
	`"burst";q=100;w=60,"daily";q=1000;w=86400`,
	`"a";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUHw=:`,
	`"peruser";r=0;t=1;pk=:YWJj:`,
	`"a\"b\\c";acme-burst=-7.5;r=1;x;t=2;y=?0;z=token/x;d=@1659578233;*e=%"f%c3%bc"`,
	`"default";r=999999999999999;t=0`,
	`limit=100, remaining=0, reset=50`,
	`100, 10;w=1, 50;w=60;comment="x"`,
	`"default";a=50;w=30;r=40;t=2`,
	`("inner" "list");r=1`,
	`default;r=0;t=30 ,	"x";r=1`,
}

// Our reader of RateLimit fields and one on a library of structured fields
// (RFC 9651) agree about every field, also about malformed ones.
func TestFieldsAreReadAsOthersReadThem(t *testing.T) {
	const alphabet = "\"\\,;=:?@%()*-._ \t09azAZé\x00"
	r := rand.New(rand.NewPCG(1, 2))
	well, malformed := 0, 0
	for range 300_000 {
		b := []byte(fields[r.IntN(len(fields))])
		for range r.IntN(4) {
			at, c := r.IntN(len(b)), alphabet[r.IntN(len(alphabet))]
			switch r.IntN(3) {
			case 0:
				b[at] = c
			case 1:
				b = append(b[:at], append([]byte{c}, b[at:]...)...)
			default:
				b = append(b[:at], b[at+1:]...)
			}
		}
		lines := strings.SplitN(string(b), ",", 1+r.IntN(2))
		limits, policies := readLimits(lines), readPolicies(lines)
		if got := ratelimitfield.ParseLimits(lines); len(got)+len(limits) > 0 && !reflect.DeepEqual(got, limits) {
			t.Fatalf("RateLimit: %q: %+v: want %+v", lines, got, limits)
		}
		if got := ratelimitfield.ParsePolicies(lines); len(got)+len(policies) > 0 && !reflect.DeepEqual(got, policies) {
			t.Fatalf("RateLimit-Policy: %q: %+v: want %+v", lines, got, policies)
		}
		if len(limits)+len(policies) > 0 {
			well++
		} else {
			malformed++
		}
	}
	if well < 10_000 || malformed < 10_000 {
		t.Errorf("%d fields are well formed, %d are not: want many of both", well, malformed)
	}
}

// What we write, others read.
func TestFieldsAreWrittenAsOthersReadThem(t *testing.T) {
	for _, name := range []string{"plain", `a"b\c`, " "} {
		quoted := ratelimitfield.Quote(name)
		b := ratelimitfield.OfWindow(100, time.Hour).Append(nil, quoted)
		b = ratelimitfield.OfWindow(0, time.Second).Append(b, quoted)
		want := []ratelimitfield.QuotaPolicy{{Name: name, Unit: "requests", Quota: 100, Window: time.Hour}, {Name: name, Unit: "requests", Window: time.Second}}
		if got := readPolicies([]string{string(b)}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v: want %+v", b, got, want)
		}
		left := ratelimitfield.Draft.AppendLeft(nil, quoted, 3, 1500*time.Millisecond)
		if got := readLimits([]string{string(left)}); !reflect.DeepEqual(got, []ratelimitfield.ServiceLimit{{Name: name, Remaining: 3, Reset: 2 * time.Second}}) {
			t.Errorf("%s: %+v", left, got)
		}
	}
}

func readItems(lines []string) (items []httpsfv.Item) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil
	}
	for _, member := range list {
		i, ok := member.(httpsfv.Item)
		if !ok {
			return nil
		}
		items = append(items, i)
	}
	return items
}

func readLimits(lines []string) (limits []ratelimitfield.ServiceLimit) {
	for _, i := range readItems(lines) {
		name, named := i.Value.(string)
		key, partitioned := get(i, "pk", []byte(nil))
		if !named || !partitioned {
			return nil
		}
		l := ratelimitfield.ServiceLimit{Name: name, Partition: string(key), Remaining: -1, Reset: -1}
		for left, more := range map[string]string{"r": "t", "a": "w"} {
			if _, says := i.Params.Get(left); !says {
				continue
			}
			remaining, counted := get(i, left, int64(-1))
			reset, timed := get(i, more, int64(0))
			if !counted || remaining < 0 || !timed || reset < 0 {
				return nil
			}
			if l.Remaining < 0 || remaining < l.Remaining {
				l.Remaining = remaining
			}
			if _, says := i.Params.Get(more); says {
				l.Reset = max(l.Reset, ratelimitfield.Seconds(reset))
			}
		}
		if l.Remaining < 0 {
			return nil
		}
		limits = append(limits, l)
	}
	return limits
}

func readPolicies(lines []string) (policies []ratelimitfield.QuotaPolicy) {
	for _, i := range readItems(lines) {
		window, timed := get(i, "w", int64(0))
		_, says := i.Params.Get("w")
		if !timed || says && window < 1 {
			return nil
		}
		p := ratelimitfield.QuotaPolicy{Unit: ratelimitfield.UnitRequests, Window: ratelimitfield.Seconds(window)}
		if quota, old := i.Value.(int64); old && quota >= 0 { // until draft-07
			if p.Quota = quota; says {
				policies = append(policies, p)
			}
			continue
		}
		name, named := i.Value.(string)
		unit, text := get(i, "qu", p.Unit)
		quota, counted := get(i, "q", int64(-1))
		_, partitioned := get(i, "pk", []byte(nil))
		if !named || !text || !counted || quota < 0 || !partitioned {
			return nil
		}
		p.Name, p.Unit, p.Quota = name, unit, quota
		policies = append(policies, p)
	}
	return policies
}

func get[T any](i httpsfv.Item, name string, otherwise T) (value T, ok bool) {
	v, says := i.Params.Get(name)
	if !says {
		return otherwise, true
	}
	value, ok = v.(T)
	return value, ok
}
