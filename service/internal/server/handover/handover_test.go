package handover

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
)

var secret = siphash.Key{K0: 1, K1: 2}

// collect returns the chunks that send emits, decoded.
func collect(t *testing.T, s *Sender, send func(emit func([]byte) error) error) (all []*Chunk) {
	t.Helper()
	err := send(func(b []byte) error {
		if len(b) > MaxSize {
			t.Errorf("a chunk has %d bytes", len(b))
		}
		c, err := NewSender(secret).Decode(b)
		all = append(all, c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func held(i int, key string) lease.SavedLease {
	id := lease.ID{7: byte(i >> 8), 8: byte(i)}
	return lease.SavedLease{ID: id, Key: key, N: 1 + i%3, Token: uint64(i >> 8), Until: time.Duration(i),
		Terms: rules.LeaseTerms{TTL: time.Second, MaxTTL: time.Hour}, Under: []int{i % 2, 2}}
}

func TestRoundTrip(t *testing.T) {
	s := NewSender(secret)
	rules := []Rule{{"a", config.PerKey}, {"b", ""}, {"c", config.PerRule}}
	out := &Leases{Token: 1 << 50, Rules: rules}
	for i := range 5000 {
		out.Held = append(out.Held, held(i, fmt.Sprint("key ", i)))
	}
	out.Held = append(out.Held, held(0, strings.Repeat("x", MaxKey)), held(1, strings.Repeat("x", MaxKey+1)))
	ids := map[ID]bool{}
	n := 0
	chunks := collect(t, s, func(emit func([]byte) error) error { return s.Leases(out, emit) })
	for _, c := range chunks {
		if ids[c.ID] || c.Leases.Token != out.Token {
			t.Errorf("%+v", c)
		}
		ids[c.ID] = true
		for _, h := range c.Leases.Held {
			var names, want []Rule
			for i := range h.Under {
				names, want = append(names, c.Leases.Rules[h.Under[i]]), append(want, rules[out.Held[n].Under[i]])
			}
			h.Under = out.Held[n].Under
			if !reflect.DeepEqual(h, out.Held[n]) || !slices.Equal(names, want) {
				t.Fatalf("%d: %+v under %v: want %+v under %v", n, h, names, out.Held[n], want)
			}
			n++
		}
	}
	if n != 5001 || len(chunks) < 3 {
		t.Errorf("%d leases in %d chunks", n, len(chunks))
	}

	var limits []Limit
	for i := range 10_000 {
		limits = append(limits, Limit{"rule", lease.SavedLimit{Bucket: fmt.Sprint("bucket ", i), Limit: i, Usual: time.Duration(i)}})
	}
	var got []Limit
	for _, c := range collect(t, s, func(emit func([]byte) error) error { return s.Limits(limits, emit) }) {
		got = append(got, c.Limits...)
	}
	if !slices.Equal(got, limits) {
		t.Errorf("%d limits", len(got))
	}

	pages := []grant.Page{page(1), page(1<<63, 0), page(7, 0, 1, 64, 1<<15-1), page(9)}
	for i := range dense - 1 {
		pages[0].Settled[i/8] |= 1 << (i % 8)
	}
	for i := range pages[3].Settled {
		pages[3].Settled[i] = ^uint64(i)
	}
	pages = slices.Concat(slices.Repeat(pages, 10), slices.Repeat([]grant.Page{page(3, 4)}, 1500))
	var read []grant.Page
	for _, c := range collect(t, s, func(emit func([]byte) error) error { return s.Grants(slices.Values(pages), emit) }) {
		read = append(read, c.Grants...)
	}
	if !reflect.DeepEqual(read, pages) {
		t.Errorf("%d pages", len(read))
	}

	want := &Counts{Rule: "r", Candidate: true, Kind: "key", Part: []byte("part")}
	if c, err := s.Decode(s.Counts(want)); err != nil || !reflect.DeepEqual(c.Counts, want) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := s.Decode(s.Own([]byte("part"))); err != nil || string(c.Own) != "part" {
		t.Errorf("%+v, %v", c, err)
	}
}

func page(at uint64, settled ...int) grant.Page {
	p := grant.Page{At: at, Settled: make([]uint64, grant.PageWords)}
	for _, i := range settled {
		p.Settled[i/64] |= 1 << (i % 64)
	}
	return p
}

// FuzzDecode decodes bodies that a member would not send. A chunk that is read is written as
// it was.
func FuzzDecode(f *testing.F) {
	s := NewSender(secret)
	add := func(b []byte) error {
		f.Add(b[len(magic)+len(ID{}) : len(b)-8])
		return nil
	}
	_ = add(s.Counts(&Counts{Rule: "r", Kind: "key", Part: []byte("part")}))
	_ = add(s.Own([]byte("part")))
	_ = s.Leases(&Leases{Token: 9, Rules: []Rule{{"a", "key"}, {"b", ""}, {"c", ""}}, Held: []lease.SavedLease{held(1, "a"), held(2, "b")}}, add)
	_ = s.Limits([]Limit{{"rule", lease.SavedLimit{Bucket: "b", Limit: 3, Usual: 4}}}, add)
	_ = s.Grants(slices.Values([]grant.Page{page(1, 3, 5), page(2)}), add)
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 {
			return
		}
		b := s.seal(append(s.begin(body[0]), body[1:]...))
		c, err := s.Decode(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
			return
		}
		var again []byte
		emit := func(b []byte) error {
			again = append(again, b...)
			return nil
		}
		switch {
		case c.Counts != nil:
			again = s.Counts(c.Counts)
		case c.Leases != nil:
			_ = s.Leases(c.Leases, emit)
		case len(c.Limits) > 0:
			_ = s.Limits(c.Limits, emit)
		case len(c.Grants) > 0:
			_ = s.Grants(slices.Values(c.Grants), emit)
		default:
			return
		}
		if len(b) > fullBody || len(again) < len(b) { // in several chunks, or numbers were longer than need be
			return
		}
		if at := len(magic) + len(ID{}); len(again) == len(b) && !bytes.Equal(again[at:len(b)-8], b[at:len(b)-8]) {
			t.Errorf("%q is written as %q", b, again)
		}
	})
}

// Chunks of the release f6d7ae14 are read.
func TestReleasedChunks(t *testing.T) {
	for text, want := range map[string]Chunk{
		"63" + "016101036b657970617274" + "d41a18046d65f69f": {Counts: &Counts{Rule: "a", Candidate: true, Kind: "key", Part: []byte("part")}},
		"6c" + "0700000000000000010000000000000000016b028094ebdc038094ebdc0380b09dc2df01020161036b657901620472756c65" + "1bd2d388b68d512a": {
			Leases: &Leases{Token: 7, Rules: []Rule{{"a", config.PerKey}, {"b", config.PerRule}}, Held: []lease.SavedLease{{
				ID: lease.ID{7: 1}, Key: "k", N: 2, Token: 1, Until: time.Second, Terms: rules.LeaseTerms{TTL: time.Second, MaxTTL: time.Minute}, Under: []int{0, 1},
			}}},
		},
		"61" + "0161016b058094ebdc03" + "0db7b92ad3384b12": {Limits: []Limit{{"a", lease.SavedLimit{Bucket: "k", Limit: 5, Usual: time.Second}}}},
	} {
		number := map[string]string{"63": "1", "6c": "2", "61": "3"}[text[:2]]
		b, err := hex.DecodeString("776569726d6f7631" + "4a8b8d6a193c7b75" + "000000000000000" + number + text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := NewSender(secret).Decode(b)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got.ID = ID{}
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, want %+v", text, *got, want)
		}
	}
}

// A chunk of a kind that a later version adds is empty here.
func TestLaterChunk(t *testing.T) {
	s := NewSender(secret)
	c, err := s.Decode(s.seal(append(s.begin('z'), "anything"...)))
	if err != nil || !reflect.DeepEqual(*c, Chunk{ID: c.ID}) {
		t.Errorf("%+v, %v: want an empty chunk", c, err)
	}
}
