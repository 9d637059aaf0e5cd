// Package token authorizes the clients of a server by bearer tokens.
//
//	tokens:
//	  - name: checkout            # for answers and logs
//	    sha256: 6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918
//	    keys: ["user:*", "cart:?"]    # globs; all keys if left out
//	  - name: operator
//	    token: a-secret-of-at-least-16-bytes
//	    allow: [decide, lease, debug]    # decide and lease if left out
//
// The file has the secret or, better, its SHA-256:
//
//	printf %s "$SECRET" | sha256sum
package token

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// An Action is a kind of access to a key.
type Action string

const (
	Decide Action = "decide" // ask for tokens, and settle
	Lease  Action = "lease"  // acquire, renew and return leases
	Debug  Action = "debug"  // read the state of a key

	Metrics Action = "metrics" // read the metrics at the listener of operators
	Admin   Action = "admin"   // use all of that listener, also the metrics
)

var actions = []Action{Decide, Lease, Debug, Metrics, Admin}

// Bounds of a file.
const (
	maxBytes  = 1 << 20
	maxValues = 100_000
	maxTokens = 1000
	minSecret = 16 // bytes
)

// A Set has the tokens of a file. It is immutable.
type Set struct{ tokens []*Token }

// A Token allows actions on keys.
type Token struct {
	Name  string
	hash  [sha256.Size]byte
	keys  *match.Set // nil: all
	allow []Action
	uses  *atomic.Uint64 // requests
}

// Errors of Token.Authorize.
var (
	ErrUnknown   = errors.New("unknown token: send it as Authorization: Bearer TOKEN")
	ErrForbidden = errors.New("the token does not allow this")
)

// errListing is the error of AuthorizeOpen.
var errListing = errors.New("keys are listed to clients on loopback, to operators, and to a token that allows debug on all keys")

// AuthorizeOpen authorizes a client where none needs a token. It may do everything, but Debug of all keys, which lists
// them, only if its address is on loopback, or a Unix socket's.
func AuthorizeOpen(from string, a Action, key string) error {
	if a != Debug || key != "" {
		return nil
	}
	if at, err := netip.ParseAddrPort(from); err == nil && !at.Addr().Unmap().IsLoopback() {
		return errListing
	}
	return nil
}

// Authorize returns nil if the token allows an action on a key or, if that is empty, on
// all keys at once. Otherwise the error wraps ErrForbidden. For a nil Token the error
// is ErrUnknown.
func (t *Token) Authorize(a Action, key string) error {
	switch {
	case t == nil:
		return ErrUnknown
	case !slices.Contains(t.allow, a) && (a != Metrics || !slices.Contains(t.allow, Admin)):
		return fmt.Errorf("%w: %s may not %s", ErrForbidden, t.Name, a)
	case t.keys != nil && (key == "" || t.keys.First(key) < 0):
		return fmt.Errorf("%w: not one of the keys of %s", ErrForbidden, t.Name)
	}
	return nil
}

// Find returns the Token of an Authorization header; nil if there is none.
func (s *Set) Find(authorization string) *Token {
	secret, ok := Bearer(authorization)
	if !ok {
		return nil
	}
	return s.FindSecret(secret)
}

// Bearer returns the secret of an Authorization header; ok is false if there is none.
func Bearer(authorization string) (secret string, ok bool) {
	scheme, secret, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimLeft(secret, " "), true
}

// FindSecret returns the Token with a secret; nil if there is none. Its duration reveals
// nothing about the secrets: it compares hashes with all tokens, in constant time.
func (s *Set) FindSecret(secret string) *Token { return s.find(sha256.Sum256([]byte(secret))) }

func (s *Set) find(hash [sha256.Size]byte) (found *Token) {
	for _, t := range s.tokens {
		if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
			found = t
		}
	}
	return found
}

// file is the content of a file.
type file struct {
	Tokens []entry `yaml:"tokens"`
}

type entry struct {
	Name   string   `yaml:"name"`
	SHA256 string   `yaml:"sha256"`
	Token  string   `yaml:"token"`
	Keys   []string `yaml:"keys"`
	Allow  []Action `yaml:"allow"`
}

// Load reads a file. An error of the content joins an error, with its place, for
// each invalid field; none of them shows a secret.
func Load(path string) (*Set, error) {
	text, err := inputfile.Read(path, maxBytes+1)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse reads the content of a file as Load does; name is for errors.
func Parse(name string, text []byte) (*Set, error) {
	f, err := strictyaml.Parse(name, text, strictyaml.Bounds{Bytes: maxBytes, Values: maxValues})
	if err != nil {
		return nil, err
	}
	if f.Body == nil {
		return nil, f.Errorf(nil, "", "want one document, beginning with tokens:")
	}
	var says file
	f.Decode(f.Body, reflect.ValueOf(&says).Elem(), "")
	if says.Tokens == nil && f.Err() == nil {
		f.Report(nil, "tokens", ": must be given; [] if there are none")
	}
	if len(says.Tokens) > maxTokens {
		f.Report(f.Where("tokens"), "tokens", ": must be at most %d", maxTokens)
		return nil, f.Err()
	}
	s := &Set{}
	for i, e := range says.Tokens {
		s.add(&reader{f, "tokens[" + strconv.Itoa(i) + "]"}, e)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// A reader reports errors in one token.
type reader struct {
	file *strictyaml.File
	path string
}

func (r *reader) check(fine bool, field, format string, args ...any) {
	path := r.path
	if field != "" {
		path = strictyaml.Join(path, field)
	}
	if !fine && !r.file.Wrong(path) {
		r.file.Report(r.file.Where(path), path, ": "+format, args...)
	}
}

// add adds a token, or reports errors.
func (s *Set) add(r *reader, e entry) {
	t := &Token{Name: e.Name, allow: e.Allow, uses: new(atomic.Uint64)}
	r.check(e.Name != "", "name", "must be given")
	r.check((e.SHA256 == "") != (e.Token == ""), "token", "must have either this or sha256")
	if e.SHA256 != "" {
		hash, err := hex.DecodeString(e.SHA256)
		r.check(err == nil && len(hash) == sha256.Size, "sha256", "must be 64 hexadecimal digits")
		copy(t.hash[:], hash)
	} else if e.Token != "" {
		r.check(len(e.Token) >= minSecret, "token", "must have at least %d bytes", minSecret)
		t.hash = sha256.Sum256([]byte(e.Token))
	}
	for _, other := range s.tokens {
		r.check(other.Name != e.Name, "name", "must differ from all others")
		r.check(other.hash != t.hash || t.hash == [sha256.Size]byte{}, "", "must differ from %s: the secret is the same", other.Name)
	}
	if e.Allow == nil {
		t.allow = []Action{Decide, Lease}
	}
	for i, a := range e.Allow {
		r.check(slices.Contains(actions, a), fmt.Sprintf("allow[%d]", i), "must be decide, lease, debug, metrics or admin")
	}
	if e.Keys != nil {
		t.keys = globs(r, e.Keys)
	}
	s.tokens = append(s.tokens, t)
}

// globs compiles the globs of keys.
func globs(r *reader, keys []string) *match.Set {
	var patterns []match.Pattern
	for i, key := range keys {
		p := match.Pattern{Kind: match.Glob, Text: key}
		_, err := match.New([]match.Pattern{p})
		r.check(err == nil, fmt.Sprintf("keys[%d]", i), "must be a glob: %v", err)
		if err == nil {
			patterns = append(patterns, p)
		}
	}
	set, err := match.New(patterns)
	r.check(err == nil, "keys", "%v", err)
	return set
}
