package httpapi

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// FuzzString compares what is written with encoding/json.
func FuzzString(f *testing.F) {
	for _, text := range []string{"", "a", `"\`, "\x00\x1f\x7f\b\f\n\r\t", "ä😀\u2028\u2029\ufffd", "\xff\xc3\x28\xed\xa0\x80", "</script>&"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := string(appendString(nil, text)) + "\n"; got != want.String() {
			t.Errorf("%q: %s: want %s", text, got, &want)
		}
	})
}

// FuzzQuery compares with net/url, where that finds nothing wrong.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{"", "n=1", "n=%31&canWait=true", "canWait=+1+&x=%zz", "n=1&n=2", "%6e=3", "timeout=1.5&ttl=2m", "=&=&&", "n", "n=1;canWait=1", "n=%", "outcome=late&all=T&ids=f", "atMost=1&&", strings.Repeat("&", 31)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, query string) {
		var p params
		fault := p.parse(query, paramsOfAny-1)
		values, err := url.ParseQuery(query)
		if err != nil || fault != nil {
			return
		}
		for name, all := range values {
			if named(name) == 0 || len(all) > 1 {
				t.Errorf("%q: %q came %d times", query, name, len(all))
			}
		}
		for _, name := range []string{"canWait", "n", "timeout", "maxRequests", "maxRequestsInQueue", "ttl", "outcome", "all", "ids", "atMost", "ik"} {
			if (p.given&named(name) != 0) != values.Has(name) || (p.valued&named(name) != 0) != (name != "ik" && strings.TrimSpace(values.Get(name)) != "") {
				t.Errorf("%q: %s: given %b, valued %b", query, name, p.given, p.valued)
			}
		}
		if want, err := strconv.Atoi(strings.TrimSpace(values.Get("n"))); err == nil && p.n != want {
			t.Errorf("%q: n is %d: want %d", query, p.n, want)
		}
		if p.n < 0 || p.n > math.MaxInt32 || p.timeout < 0 || p.ttl < 0 || p.valued&paramTTL != 0 && p.ttl == 0 {
			t.Errorf("%q: %+v", query, p)
		}
	})
}

// FuzzPath compares with what is between the slashes, unescaped.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"/rate/a", "/rate/a%2Fb/c", "/", "//", "/rate//", "/rate/%20/%", "/debug/", "/rate/../x", "/a/b/c/d", "", "*", "/rate/a%252Fb", "/%72ate/x"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || u.Scheme != "" || u.Opaque != "" {
			return
		}
		got := locate(u)
		parts := strings.Split(u.EscapedPath(), "/")[1:]
		want := target{parts: len(parts)}
		for i, into := range []*string{&want.root, &want.key, &want.id} {
			if i < len(parts) {
				if *into, err = url.PathUnescape(parts[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		switch {
		case len(parts) > 3:
			want = target{}
		case want.root == "debug" && len(parts) == 2 && want.key == "":
			want.parts = 1
		}
		if got != want {
			t.Errorf("%q: %+v: want %+v", path, got, want)
		}
	})
}
