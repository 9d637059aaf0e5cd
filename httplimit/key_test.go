package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/testrig"
)

func from(remote string, headers ...string) *http.Request {
	r := testrig.Request("GET", "/", headers...)
	r.RemoteAddr = remote
	return r
}

func TestAddress(t *testing.T) {
	for _, tt := range []struct{ remote, want string }{
		{"192.0.2.1:1234", "192.0.2.1"},
		{"192.0.2.1", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:1234", "2001:db8:1:2::"},
		{"[2001:db8:1:2:ffff::]:1", "2001:db8:1:2::"},
		{"2001:db8:1:2::9", "2001:db8:1:2::"},
		{"[2001:db8:1:2::9]", "2001:db8:1:2::"},
		{"[fe80::1%eth0]:80", "fe80::"},
		{"fe80::1%eth0", "fe80::"},
		{"[::ffff:192.0.2.1]:1234", "192.0.2.1"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"[::ffff:192.0.2.1%eth0]:1234", "192.0.2.1"},
		{"[::1]:1234", "::"},
		// RFC 6052: IPv4, translated to IPv6 by the well-known prefix.
		{"[64:ff9b::192.0.2.1]:1234", "192.0.2.1"},
		{"64:ff9b::c000:201", "192.0.2.1"},
		{"[64:ff9b::1:192.0.2.1]:1234", "64:ff9b::"}, // not in the prefix of 96 bits
		// RFC 8215: by a local prefix, whose place of the IPv4 address is not known.
		{"[64:ff9b:1:7::192.0.2.1]:1234", "64:ff9b:1:7::c000:201"},
		{"[64:ff9b:2::192.0.2.1]:1234", "64:ff9b:2::"},
		// RFC 2765: by a stateless translator.
		{"[::ffff:0:192.0.2.1]:1234", "192.0.2.1"},
		// RFC 3056: a site of 6to4 has a network of 48 bits.
		{"[2002:c000:201::1]:1234", "192.0.2.1"},
		{"[2002:c000:201:ffff:1:2:3:4]:1234", "192.0.2.1"},
		// RFC 4380: of Teredo, the clients of one server share a network of 64 bits.
		{"[2001:0:4136:e378:8000:63bf:3fff:fdfe]:1234", "192.0.2.1"},
		{"[2001:1:4136:e378:8000:63bf:3fff:fdfe]:1234", "2001:1:4136:e378::"},
		{"", ""}, {"@", ""}, {"unix", ""}, {"/run/x.sock", ""}, {":80", ""}, {"[]", ""}, {"[]:80", ""}, {"256.1.1.1:80", ""},
		{"192.0.2.1:", ""}, {"192.0.2.1:99999", ""}, {" 192.0.2.1:80", ""}, {"192.0.2.01:80", ""}, {"0x7f.1:80", ""}, {"2130706433:80", ""},
	} {
		a, ok := Address()(from(tt.remote, "X-Forwarded-For: 9.9.9.9", "X-Real-Ip: 9.9.9.9", "Forwarded: for=9.9.9.9"))
		if got := text(a); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q: %q %v: want %q", tt.remote, got, ok, tt.want)
		}
	}
}

// text is an address, or nothing for none.
func text(a netip.Addr) string {
	if a == (netip.Addr{}) {
		return ""
	}
	return a.String()
}

// A client with a network of 64 bits has one bucket, whichever of its addresses it
// uses.
func TestRotationInANetworkSharesABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, key := range map[int64]func(*http.Request) (netip.Addr, bool){
			2: Address(), // the proxy is a client, too
			1: AddressBehind("X-Forwarded-For", netip.MustParsePrefix("10.0.0.0/8")),
		} {
			s := newSite(t, Config{Rules: []Rule{perKeyOnce(t, key)}}, nil)
			for n := range 1000 {
				a := fmt.Sprintf("2001:db8::%x:%x", n*7919%65536, n)
				s.do(from("["+a+"]:80", "X-Forwarded-For: 9.9.9.9"))
				s.do(from("10.0.0.1:80", "X-Forwarded-For: "+a))
			}
			s.ran(want)
			s.do(from("[2001:db8:0:1::]:80"))
			s.ran(want + 1) // the next network is another client
		}
	})
}

// Acceptance: what an untrusted peer says changes nothing.
func TestAnUntrustedPeerHasOneBucket(t *testing.T) {
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP"} {
		bubble(t, header, func(t *testing.T) {
			s := newSite(t, Config{Rules: []Rule{perKeyOnce(t, AddressBehind(header, netip.MustParsePrefix("10.0.0.0/8")))}}, nil)
			s.do(from("192.0.2.1:80"))
			for n := range 256 {
				a := fmt.Sprintf("9.9.9.%d", n)
				for _, value := range []string{a, "for=" + a, a + ", 10.0.0.1", "for=" + a + ", for=10.0.0.1", "10.0.0.1", "192.0.2.1," + a} {
					if w := s.do(from("192.0.2.1:80", header+": "+value)); w.Code != 429 {
						t.Fatalf("%s: %d", value, w.Code)
					}
				}
			}
			s.ran(1)
		})
	}
}

func TestHeader(t *testing.T) {
	long := strings.Repeat("x", MaxKey)
	for _, tt := range []struct {
		rule    string
		name    string
		headers []string
		want    string
		ok      bool
	}{
		{"a value", "X-Api-Key", []string{"X-Api-Key: a"}, "a", true},
		{"any spelling", "x-aPI-kEY", []string{"X-Api-Key: a"}, "a", true},
		{"the first of several", "X-Api-Key", []string{"X-Api-Key: a", "X-Api-Key: b"}, "a", true},
		{"none", "X-Api-Key", nil, "", false},
		{"an empty one", "X-Api-Key", []string{"X-Api-Key: "}, "", false},
		{"an empty first one", "X-Api-Key", []string{"X-Api-Key: ", "X-Api-Key: b"}, "", false},
		{"as long as may be", "X-Api-Key", []string{"X-Api-Key: " + long}, long, true},
		{"Host is no header", "host", []string{"Host: other"}, "example.com", true},
	} {
		if got, ok := Header(tt.name)(testrig.Request("GET", "/", tt.headers...)); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %q %v: want %q %v", tt.rule, got, ok, tt.want, tt.ok)
		}
	}
}

// A key of unbounded size is hashed: it is short, and still unique.
func TestHugeKeysAreHashed(t *testing.T) {
	huge := strings.Repeat("x", 10<<20)
	header := func(v string) *http.Request { return testrig.Request("GET", "/", "X-Api-Key: "+v) }
	for name, kind := range map[string]struct {
		key func(*http.Request) (string, bool)
		r   func(string) *http.Request
	}{
		"header": {Header("X-Api-Key"), header},
		"host": {Header("Host"), func(v string) *http.Request {
			r := testrig.Request("GET", "/")
			r.Host = v
			return r
		}},
	} {
		seen := map[string]string{}
		for _, v := range []string{huge, huge + "y", "y" + huge, huge[:MaxKey+1], huge[:MaxKey], huge[:MaxKey-1] + "y", "x"} {
			k, ok := kind.key(kind.r(v))
			again, _ := kind.key(kind.r(v))
			if !ok || k != again || len(k) > MaxKey {
				t.Errorf("%s of %d bytes: a key of %d bytes, %v", name, len(v), len(k), ok)
			}
			if other, taken := seen[k]; taken {
				t.Errorf("%s: the key of %d bytes is that of %d", name, len(v), len(other))
			}
			seen[k] = v
		}
		// No client can send the hash of another.
		k, _ := kind.key(kind.r(huge))
		if !strings.Contains(k, "\x00") {
			t.Errorf("%s: a client may send %q", name, k)
		}
	}
}

// The scheme of Authorization has no case.
func TestAuthorization(t *testing.T) {
	key := Header("Authorization")
	bearer, _ := key(testrig.Request("GET", "/", "Authorization: Bearer t"))
	for _, same := range []string{"bearer t", "BEARER  t", " Bearer t "} {
		if k, ok := key(testrig.Request("GET", "/", "Authorization: "+same)); k != bearer || !ok {
			t.Errorf("%q: %q: want %q", same, k, bearer)
		}
	}
	if k, _ := key(testrig.Request("GET", "/", "Authorization: Bearer T")); k == bearer {
		t.Error("credentials have a case")
	}
	if k, ok := key(testrig.Request("GET", "/")); ok {
		t.Errorf("%q without a header", k)
	}
}
