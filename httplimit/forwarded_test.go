package httplimit

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/caller"
)

func prefixes(list ...string) (all []netip.Prefix) {
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

var proxies = prefixes("10.0.0.0/8", "2001:db8:ffff::/48")

func TestAddressBehind(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		remote string
		lines  []string // of X-Forwarded-For
		want   string
	}{
		{"no proxy, no header", "192.0.2.1:80", nil, "192.0.2.1"},
		{"no proxy, but a header", "192.0.2.1:80", []string{"9.9.9.9"}, "192.0.2.1"},
		{"a proxy that says nothing", "10.0.0.1:80", nil, "10.0.0.1"},
		{"a proxy", "10.0.0.1:80", []string{"192.0.2.1"}, "192.0.2.1"},
		{"a proxy that adds to what the client said", "10.0.0.1:80", []string{"9.9.9.9, 192.0.2.1"}, "192.0.2.1"},
		{"a line of its own", "10.0.0.1:80", []string{"9.9.9.9", "192.0.2.1"}, "192.0.2.1"},
		{"two proxies", "10.0.0.1:80", []string{"9.9.9.9, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"two proxies, two lines", "10.0.0.1:80", []string{"9.9.9.9,192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		{"a proxy that is not trusted", "10.0.0.1:80", []string{"9.9.9.9, 192.0.2.1, 198.51.100.1"}, "198.51.100.1"},
		{"the client says that it is a proxy", "10.0.0.1:80", []string{"9.9.9.9, 10.0.0.9, 192.0.2.1"}, "192.0.2.1"},
		{"the client is one", "10.0.0.1:80", []string{"10.0.0.9"}, "10.0.0.9"},
		{"spaces and tabs", "10.0.0.1:80", []string{" 9.9.9.9 ,\t192.0.2.1 \t"}, "192.0.2.1"},
		{"empty entries", "10.0.0.1:80", []string{",, 192.0.2.1 ,", "", " , "}, "192.0.2.1"},
		{"a port", "10.0.0.1:80", []string{"9.9.9.9, 192.0.2.1:4711"}, "192.0.2.1"},
		{"IPv6", "10.0.0.1:80", []string{"9.9.9.9, 2001:db8:1:2::9"}, "2001:db8:1:2::"},
		{"IPv6 in brackets", "10.0.0.1:80", []string{"[2001:db8:1:2::9]"}, "2001:db8:1:2::"},
		{"IPv6 with a port", "10.0.0.1:80", []string{"[2001:db8:1:2::9]:4711"}, "2001:db8:1:2::"},
		{"a zone", "10.0.0.1:80", []string{"fe80::1%eth0"}, "fe80::"},
		{"IPv4 in IPv6", "10.0.0.1:80", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"a proxy in IPv6 form", "[::ffff:10.0.0.1]:80", []string{"::ffff:192.0.2.1, ::ffff:10.0.0.2"}, "192.0.2.1"},
		{"a proxy with a zone", "[2001:db8:ffff::1%eth0]:80", []string{"192.0.2.1"}, "192.0.2.1"},
		{"an IPv6 proxy", "[2001:db8:ffff::1]:80", []string{"192.0.2.1, 2001:db8:ffff:9::2"}, "192.0.2.1"},
		{"not an address: its sender", "10.0.0.1:80", []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"no address of the first proxy's", "10.0.0.1:80", []string{"192.0.2.1, unix:"}, "10.0.0.1"},
		{"an obfuscated identifier", "10.0.0.1:80", []string{"192.0.2.1, _hidden"}, "10.0.0.1"},
		{"a name", "10.0.0.1:80", []string{"localhost"}, "10.0.0.1"},
		{"quotes are none of this header's", "10.0.0.1:80", []string{`"192.0.2.1"`}, "10.0.0.1"},
		{"a peer without an address", "@", []string{"192.0.2.1"}, ""},
	} {
		for _, header := range []string{"X-Forwarded-For", "x-real-ip"} {
			r := from(tt.remote)
			r.Header[http.CanonicalHeaderKey(header)] = tt.lines
			a, ok := AddressBehind(header, proxies...)(r)
			if got := text(a); got != tt.want || ok != (tt.want != "") {
				t.Errorf("%s: %s: %q %v: want %q", header, tt.rule, got, ok, tt.want)
			}
		}
	}
}

func TestForwarded(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		lines []string
		want  string
	}{
		{"a token", []string{"for=192.0.2.1"}, "192.0.2.1"},
		{"any spelling", []string{"For=192.0.2.1"}, "192.0.2.1"},
		{"quoted", []string{`for="192.0.2.1"`}, "192.0.2.1"},
		{"quoted, with a port", []string{`for="192.0.2.1:47011"`}, "192.0.2.1"},
		{"IPv6", []string{`for="[2001:db8:1:2::9]"`}, "2001:db8:1:2::"},
		{"IPv6 with a port", []string{`for="[2001:db8:1:2::9]:4711"`}, "2001:db8:1:2::"},
		{"an obfuscated port", []string{`for="192.0.2.1:_x"`}, "192.0.2.1"},
		{"an obfuscated port of all characters", []string{`for="192.0.2.1:_aZ0.-_"`}, "192.0.2.1"},
		{"an obfuscated port of IPv6", []string{`for="[2001:db8:1:2::9]:_b"`}, "2001:db8:1:2::"},
		{"an obfuscated port without a name", []string{`for="192.0.2.1:_"`}, "10.0.0.1"},
		{"an obfuscated port of another character", []string{`for="192.0.2.1:_a/b"`}, "10.0.0.1"},
		{"a port that is a name", []string{`for="192.0.2.1:http"`}, "10.0.0.1"},
		{"the largest port of five digits", []string{`for="192.0.2.1:99999"`}, "192.0.2.1"},
		{"a port of six digits", []string{`for="192.0.2.1:100000"`}, "10.0.0.1"},
		{"an empty port", []string{`for="192.0.2.1:"`}, "10.0.0.1"},
		{"a port without quotes", []string{"for=192.0.2.1:80"}, "192.0.2.1"},
		{"IPv6 without brackets", []string{`for="2001:db8:1:2::9"`}, "2001:db8:1:2::"},
		{"IPv4 in IPv6 with a port", []string{`for="[::ffff:192.0.2.1]:80"`}, "192.0.2.1"},
		{"something behind the brackets", []string{`for="[2001:db8:1:2::9]80"`}, "10.0.0.1"},
		{"quoted pairs", []string{`for="\1\9\2.0.2.1\:80"`}, "192.0.2.1"},
		{"a quoted pair in IPv6", []string{`for="\[2001:db8:1:2::9\]:\_b"`}, "2001:db8:1:2::"},
		{"a quoted pair of a proxy", []string{`for=192.0.2.1, for="10\.0.0.2"`}, "192.0.2.1"},
		{"a backslash without quotes", []string{`for=192.0.2.1\`}, "10.0.0.1"},
		{"unknown, with a port", []string{`for=9.9.9.9, for="unknown:80"`}, "10.0.0.1"},
		{"hidden, with a hidden port", []string{`for=9.9.9.9, for="_gazonk:_x"`}, "10.0.0.1"},
		{"other parameters", []string{"proto=http; for=192.0.2.1 ;by=10.0.0.1"}, "192.0.2.1"},
		{"the last element", []string{"for=9.9.9.9, for=192.0.2.1;proto=http"}, "192.0.2.1"},
		{"the last line", []string{"for=9.9.9.9", "for=192.0.2.1"}, "192.0.2.1"},
		{"two proxies", []string{"for=9.9.9.9, for=192.0.2.1;by=10.0.0.2, for=10.0.0.2"}, "192.0.2.1"},
		{"empty elements", []string{"for=192.0.2.1, , "}, "192.0.2.1"},
		{"unknown", []string{"for=9.9.9.9, for=unknown"}, "10.0.0.1"},
		{"hidden", []string{"for=9.9.9.9, for=_SEVKISEK"}, "10.0.0.1"},
		{"no for", []string{"for=9.9.9.9, by=10.0.0.1"}, "10.0.0.1"},
		{"an empty name", []string{"for=9.9.9.9, for="}, "10.0.0.1"},
		{"an empty name in quotes", []string{`for=9.9.9.9, for="";proto=http`}, "10.0.0.1"},
		{"no parameters", []string{"for=9.9.9.9, 192.0.2.1"}, "10.0.0.1"},
		{"a parameter that ends with for", []string{"x-for=9.9.9.9;for=192.0.2.1"}, "192.0.2.1"},

		// The proxy quotes what the client has sent as Host.
		{"a comma in quotes", []string{`for=192.0.2.1;host="a,for=9.9.9.9"`}, "192.0.2.1"},
		{"an element in quotes", []string{`for=192.0.2.1;host="a,for=9.9.9.9;b="`}, "192.0.2.1"},
		{"a semicolon in quotes", []string{`host="a;for=9.9.9.9;b=";for=192.0.2.1`}, "192.0.2.1"},
		{"quotes in quotes", []string{`for=192.0.2.1;host="\",for=9.9.9.9;b=\""`}, "192.0.2.1"},
		{"quotes in quotes, before", []string{`host="\";for=9.9.9.9;b=\"";for=192.0.2.1`}, "192.0.2.1"},
		{"a backslash at the end", []string{`for=192.0.2.1;host="a,for=9.9.9.9;b=\\"`}, "192.0.2.1"},
		{"two quoted strings", []string{`for="192.0.2.1";host=",for=9.9.9.9,"`}, "192.0.2.1"},

		// What the client has sent as Forwarded does not matter, however broken.
		{"a quote that is open", []string{`for="9.9.9.9, for=192.0.2.1`}, "192.0.2.1"},
		{"a quote that is open, and a quoted string", []string{`for="9.9.9.9, for="192.0.2.1";host="x,y"`}, "192.0.2.1"},
		{"a quote after a backslash", []string{`for="9.9.9.9\", for="192.0.2.1"`}, "192.0.2.1"},
		{"a backslash at the end of a line", []string{`for=9.9.9.9;host="\`, `for=192.0.2.1`}, "192.0.2.1"},
		{"nothing but a quote", []string{`"`}, "10.0.0.1"},
		{"half a quoted name", []string{`for="192.0.2.1`}, "10.0.0.1"},
	} {
		r := from("10.0.0.1:80")
		r.Header["Forwarded"] = tt.lines
		a, ok := AddressBehind("forwarded", proxies...)(r)
		if got := text(a); got != tt.want || !ok {
			t.Errorf("%s: %q: %q %v: want %q", tt.rule, tt.lines, got, ok, tt.want)
		}
	}
}

// If every network is trusted, the header names the client, up to 32 entries; and
// trust in IPv4 does not extend to IPv6.
func TestTrust(t *testing.T) {
	many := strings.Repeat("9.9.9.9, ", 10000)
	for _, tt := range []struct {
		rule    string
		trusted []netip.Prefix
		remote  string
		line    string
		want    string
	}{
		{"no network", nil, "10.0.0.1:80", "192.0.2.1", "10.0.0.1"},
		{"everybody", prefixes("0.0.0.0/0", "::/0"), "10.0.0.1:80", "192.0.2.1, 10.0.0.2", "192.0.2.1"},
		{"everybody, and many entries", prefixes("0.0.0.0/0", "::/0"), "10.0.0.1:80", "1.1.1.1, " + many, "9.9.9.9"},
		{"some, and many entries in front", proxies, "10.0.0.1:80", many + "192.0.2.1, 10.0.0.2", "192.0.2.1"},
		{"IPv4, by an IPv6 peer", prefixes("0.0.0.0/0"), "[2001:db8:1:2::9]:80", "192.0.2.1", "2001:db8:1:2::"},
		{"IPv6, by an IPv4 peer", prefixes("::/0"), "10.0.0.1:80", "192.0.2.1", "10.0.0.1"},
		{"IPv4, by a peer in IPv6 form", prefixes("10.0.0.1/32"), "[::ffff:10.0.0.1]:80", "192.0.2.1", "192.0.2.1"},
		{"IPv4, by a peer whose address embeds it", prefixes("10.0.0.1/32"), "[2002:a00:1::1]:80", "192.0.2.1", "10.0.0.1"},
		{"IPv4, by a peer that is translated", prefixes("10.0.0.1/32"), "[64:ff9b::10.0.0.1]:80", "192.0.2.1", "10.0.0.1"},
		{"a translated network", prefixes("64:ff9b::10.0.0.0/104"), "[64:ff9b::10.0.0.1]:80", "192.0.2.1", "192.0.2.1"},
		{"an IPv4 network in IPv6 form", prefixes("::ffff:10.0.0.0/104"), "10.0.0.1:80", "192.0.2.1", "192.0.2.1"},
	} {
		a, ok := AddressBehind("X-Forwarded-For", tt.trusted...)(from(tt.remote, "X-Forwarded-For: "+tt.line))
		if got := text(a); got != tt.want || !ok {
			t.Errorf("%s: %q: want %q", tt.rule, got, tt.want)
		}
	}
	func() {
		defer func() {
			if got := recover(); got != "weir: AddressBehind: trusted[1] is not a network" {
				t.Errorf("a network that is none: %v", got)
			}
		}()
		AddressBehind("X-Forwarded-For", proxies[0], netip.Prefix{})
	}()
	none := 32 // as many entries are read as may be
	line := "192.0.2.1" + strings.Repeat(", 10.0.0.2", none)
	for _, want := range []string{"10.0.0.2", "192.0.2.1"} {
		if a, _ := AddressBehind("X-Forwarded-For", proxies...)(from("10.0.0.1:80", "X-Forwarded-For: "+line)); text(a) != want {
			t.Errorf("%d entries: %v: want %s", none+1, a, want)
		}
		line, none = strings.Replace(line, ", 10.0.0.2", "", 1), none-1
	}
}

// A peer at a Unix socket has no address: it is trusted as this machine is, or it is one client.
func TestUnixPeer(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		trusted []netip.Prefix
		remote  string // its path, if it has one
		line    string
		want    string
	}{
		{"nobody is trusted", nil, "@", "192.0.2.1", ""},
		{"others are trusted", proxies, "@", "192.0.2.1", ""},
		{"its path is the address of a client", proxies, "9.9.9.9:80", "192.0.2.1", ""},
		{"its path is the address of a proxy", proxies, "10.0.0.1:80", "192.0.2.1", ""},
		{"this machine is trusted", prefixes("127.0.0.1/32"), "@", "192.0.2.1", "192.0.2.1"},
		{"its network is trusted", prefixes("127.0.0.0/8"), "", "192.0.2.1", "192.0.2.1"},
		{"this machine is trusted by IPv6", prefixes("::1/128"), "/run/nginx.sock", "192.0.2.1", "192.0.2.1"},
		{"everything is trusted", prefixes("0.0.0.0/0", "::/0"), "@", "9.9.9.9, 192.0.2.1", "9.9.9.9"},
		{"two proxies", append(proxies, prefixes("127.0.0.1/32")...), "@", "9.9.9.9, 192.0.2.1, 10.0.0.2", "192.0.2.1"},
		{"it says nothing", prefixes("127.0.0.1/32"), "@", "", ""},
		{"it names no address", prefixes("127.0.0.1/32"), "@", "192.0.2.1, unix:", ""},
	} {
		r := from(tt.remote, "X-Forwarded-For: "+tt.line)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/app.sock", Net: "unix"}))
		a, ok := AddressBehind("X-Forwarded-For", tt.trusted...)(r)
		if got := text(a); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q %v: want %q", tt.rule, got, ok, tt.want)
		}
		if a, ok := Address()(r); ok || a.IsValid() {
			t.Errorf("%s: without a proxy, the address is %v", tt.rule, a)
		}
	}
}

// Behind a proxy on a Unix socket, each client has its own limit; of clients that come
// to the socket directly, all have one together.
func TestUnixSocket(t *testing.T) {
	for name, tt := range map[string]struct {
		trusted []netip.Prefix
		want    []int
	}{
		"trusted": {prefixes("127.0.0.0/8"), []int{200, 200, 429}},
		"others":  {proxies, []int{200, 429, 429}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, Config{Rules: []Rule{perKeyOnce(t, AddressBehind("X-Forwarded-For", tt.trusted...))}}, nil)
			path := filepath.Join(t.TempDir(), "s")
			ln, err := net.Listen("unix", path)
			testrig.Must(t, err)
			srv := &http.Server{Handler: s.handler}
			go func() { _ = srv.Serve(ln) }()
			t.Cleanup(func() { srv.Close() })
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}
			client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
			var got []int
			for _, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
				req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a.example/", nil)
				req.Header.Set("X-Forwarded-For", a)
				resp, err := client.Do(req)
				testrig.Must(t, err)
				resp.Body.Close()
				got = append(got, resp.StatusCode)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v: want %v", got, tt.want)
			}
		})
	}
}

// vouched returns the addresses in X-Forwarded-For that a trusted hop has named. It
// is a slow oracle.
func vouched(peer string, lines []string, trusted []netip.Prefix) (all []netip.Addr) {
	a, ok := caller.ParseAddr(peer)
	all = append(all, caller.Client(a))
	if !ok {
		return all
	}
	entries := strings.Split(strings.Join(lines, ","), ",")
	slices.Reverse(entries)
	for _, e := range entries {
		if e = strings.TrimSpace(e); e == "" {
			continue
		}
		named, valid := caller.ParseAddr(e)
		if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) }) || !valid {
			break
		}
		a = named
		all = append(all, caller.Client(a))
	}
	return all
}

func FuzzAddressBehind(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "9.9.9.9, 10.0.0.2", "a,b,,", "::ffff:10.0.0.1, 10.0.0.1:80\n[2001:db8::1]:80", "10.0.0.1,\n,10.0.0.3, unix:"} {
		f.Add("10.0.0.1:80", s)
		f.Add("[2001:db8:ffff::1]:80", s)
	}
	f.Fuzz(func(t *testing.T, remote, value string) {
		r := from(remote)
		lines := strings.Split(value, "\n")
		r.Header["X-Forwarded-For"] = lines
		got, ok := AddressBehind("X-Forwarded-For", proxies...)(r)
		all := vouched(remote, lines, proxies)
		want := all[len(all)-1]
		if strings.Count(value, ",")+len(lines) > caller.MaxHops {
			if !slices.Contains(all, got) {
				t.Errorf("%v is named by no trusted hop: %v", got, all)
			}
		} else if got != want || ok != (want != netip.Addr{}) {
			t.Errorf("%v %v: want %v", got, ok, want)
		}
		r.Header["Forwarded"] = lines
		if a, ok := AddressBehind("Forwarded", proxies...)(r); ok && a != caller.Client(a) {
			t.Errorf("%v is no network", a)
		}
	})
}

// Whatever a client sends, only the entry of the proxy counts.
func FuzzForwardedAfterRubbish(f *testing.F) {
	f.Add(`for="9.9.9.9`, `a,for=9.9.9.9;b=`)
	f.Add(`for="9.9.9.9\`, `\`)
	f.Fuzz(func(t *testing.T, rubbish, host string) {
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host)
		for _, element := range []string{`for=192.0.2.1;host="%s"`, `host="%s";for="192.0.2.1"`, `for="192.0.2.1";by=10.0.0.1;host="%s"`} {
			r := from("10.0.0.1:80")
			r.Header["Forwarded"] = []string{rubbish + "," + fmt.Sprintf(element, quoted)}
			if a, _ := AddressBehind("Forwarded", proxies...)(r); text(a) != "192.0.2.1" {
				t.Errorf("%q: %v", r.Header, a)
			}
		}
	})
}
