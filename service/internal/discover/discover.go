// Package discover finds the members of a fleet: from a list of URLs, in DNS, or in Kubernetes.
package discover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/ring/census"
)

// Every is the time between two lookups in DNS or in Kubernetes.
const Every = 5 * time.Second

// lookupTime bounds a lookup.
const lookupTime = 10 * time.Second

// A source lists members.
type source interface {
	members(ctx context.Context) ([]census.Member, error)
	text() string
}

// Config configures how names are looked up. The zero Config uses the resolver of the system, and
// the API of the Kubernetes cluster that the process runs in.
type Config struct {
	// LookupNetIP, if not nil, looks a host up.
	LookupNetIP func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// Kubernetes is the directory of the service account, DefaultAccount if empty, and the URL of
	// the API, that of the cluster if empty.
	Account, API string
}

// A List is the members that several sources list.
type List struct{ sources []source }

// Parse returns the List of URLs. Each is one of
//
//	http://HOST:PORT             a member, also with https
//	dns+http://NAME:PORT         each address of the name is a member, also with dns+https
//	kubernetes://SERVICE:PORT    each pod of the Service, in the namespace of this one, is a member;
//	                             kubernetes+https with TLS
//
// The error names the URL.
func Parse(urls []string, cfg Config) (*List, error) {
	l := new(List)
	var static fixed
	for _, text := range urls {
		text = strings.TrimSpace(text)
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a URL", text)
		}
		scheme, found := strings.CutPrefix(u.Scheme, "dns+")
		switch {
		case u.Host == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
			return nil, fmt.Errorf("%q must be like http://host:port, without a path", text)
		case u.Scheme == "http" || u.Scheme == "https":
			member := Normal(u)
			if slices.ContainsFunc(static, func(m census.Member) bool { return m.Name == member }) {
				return nil, fmt.Errorf("%q is listed twice: a member counts once", text)
			}
			static = append(static, census.Member{Name: member, URL: member})
		case u.Port() == "" && (found || strings.HasPrefix(u.Scheme, "kubernetes")):
			return nil, fmt.Errorf("%q has no port: give that of --listen at the members, such as %s:8080", text, text)
		case found && (scheme == "http" || scheme == "https"):
			lookup := cfg.LookupNetIP
			if lookup == nil {
				lookup = net.DefaultResolver.LookupNetIP
			}
			l.sources = append(l.sources, dns{scheme, u.Hostname(), u.Port(), lookup})
		case u.Scheme == "kubernetes" || u.Scheme == "kubernetes+https":
			k, err := newKubernetes(u, cfg)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
			l.sources = append(l.sources, k)
		default:
			return nil, fmt.Errorf("%q must begin with http://, https://, dns+http://, dns+https:// or kubernetes://", text)
		}
	}
	if len(static) > 0 {
		l.sources = append(l.sources, static)
	}
	return l, nil
}

// Fixed returns the names of the members, if these are known without a lookup; else nil.
func (l *List) Fixed() (names []string) {
	for _, s := range l.sources {
		list, is := s.(fixed)
		if !is {
			return nil
		}
		for _, m := range list {
			names = append(names, m.Name)
		}
	}
	return names
}

// String returns the sources, for logs.
func (l *List) String() string {
	var all []string
	for _, s := range l.sources {
		all = append(all, s.text())
	}
	return strings.Join(all, ",")
}

// Normal returns the URL of a member, the same for all ways to write it.
func Normal(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Watch calls use with the members, at first and whenever they have changed, until ctx ends. A
// source that fails, or lists no members, keeps the members that it has listed before. Failed, if not
// nil, is called with the first of several errors in a row.
func (l *List) Watch(ctx context.Context, use func([]census.Member), failed func(source string, err error)) {
	known := make([][]census.Member, len(l.sources))
	failing := make([]bool, len(l.sources))
	var last []census.Member
	fixedOnly := l.Fixed() != nil
	for first := true; ; first = false {
		var looking sync.WaitGroup
		for i, s := range l.sources {
			looking.Go(func() {
				within, cancel := context.WithTimeout(ctx, lookupTime)
				defer cancel()
				members, err := s.members(within)
				if err == nil && len(members) == 0 {
					err = errNone
				}
				if err == nil {
					known[i] = members
				} else if !failing[i] && failed != nil && ctx.Err() == nil {
					failed(s.text(), err)
				}
				failing[i] = err != nil
			})
		}
		looking.Wait()
		if all := union(known); ctx.Err() == nil && (first && len(all) > 0 || !slices.Equal(all, last)) {
			last = all
			use(all)
		}
		if fixedOnly || !sleep(ctx, Every) {
			return
		}
	}
}

var errNone = errors.New("there are no members")

// union returns the members of all lists, each name once, by name.
func union(lists [][]census.Member) []census.Member {
	byName := map[string]census.Member{}
	for _, list := range lists {
		for _, m := range list {
			byName[m.Name] = m
		}
	}
	var all []census.Member
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

// sleep waits, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fixed is members from a list.
type fixed []census.Member

func (f fixed) members(context.Context) ([]census.Member, error) { return f, nil }

func (f fixed) text() string {
	var all []string
	for _, m := range f {
		all = append(all, m.URL)
	}
	return strings.Join(all, ",")
}

// A dns source lists the addresses of a name.
type dns struct {
	scheme, host, port string
	lookup             lookup
}

type lookup = func(ctx context.Context, network, host string) ([]netip.Addr, error)

func (d dns) text() string { return "dns+" + d.scheme + "://" + d.host + ":" + d.port }

func (d dns) members(ctx context.Context) ([]census.Member, error) {
	addrs, err := d.lookup(ctx, "ip", d.host)
	if err != nil {
		return nil, err
	}
	var all []census.Member
	for _, a := range addrs {
		member := Normal(&url.URL{Scheme: d.scheme, Host: net.JoinHostPort(a.Unmap().String(), d.port)})
		all = append(all, census.Member{Name: member, URL: member, ServerName: d.host})
	}
	return all, nil
}
