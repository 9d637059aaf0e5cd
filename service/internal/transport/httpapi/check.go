package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// checkRoot is the first part of the path of the endpoint for gateways.
const checkRoot = "check"

// anyMethod is the method of an endpoint that answers each method alike.
const anyMethod = "*"

// maxCheckKeys bounds the keys of a check, with that of the address.
const maxCheckKeys = 8

// Header fields of a check.
const (
	keyField     = "Weir-Key"
	addressField = "Weir-Address"
	costField    = "Weir-Cost"
	deniedField  = "Weir-Denied-Status"
)

// A check is a gateway's question about a request of its client. All of it comes from header
// fields that the gateway sets: the client chooses the method, the path and the query, so that
// these say nothing.
type check struct {
	keys   []string
	cost   int
	denied int // the status of a denial

	addresses []byte // the keys of addresses, to which keys points

	requests [maxCheckKeys]decider.Request // of several keys
	verdicts [maxCheckKeys]decider.Verdict
}

// forget clears all that belongs to the request.
func (k *check) forget() {
	clear(k.keys)
	clear(k.requests[:])
	k.keys, k.addresses = k.keys[:0], k.addresses[:0]
	for i := range k.verdicts {
		k.verdicts[i].Answers = k.verdicts[i].Answers[:0]
	}
}

// check answers a gateway: 200, the status of a denial, or 500 or 503 if there is no decision.
// Gateways take other statuses for a denial, so that a mistake of the gateway must not have
// them. What the gateway's client may have caused is a denial, because gateways may let requests
// pass without a decision.
func (c *call) check(e *endpoint) *fault {
	if c.unread && c.r.ProtoMajor == 1 {
		c.w.Header()["Connection"] = closes // or else net/http reads the body first
	}
	c.forbidStore()
	k := c.api.checks.Get().(*check)
	defer func() {
		k.forget()
		c.api.checks.Put(k)
	}()
	if f := k.parse(c.r.Header); f != nil {
		return f
	}
	if f := c.findKeys(k); f != nil {
		if f.status == http.StatusTooManyRequests {
			return c.refuse(f, k.denied)
		}
		return f
	}
	if f := c.enter(e); f != nil {
		return f
	}
	if f := c.decide(k); f != nil {
		return f
	}
	c.writeFields()
	c.writeStep(c.verdict.Step)
	if c.verdict.OK {
		return nil // with status 200 and no body
	}
	f := c.denyRate()
	if c.verdict.Step == decider.ByRule {
		f.status = http.StatusTooManyRequests // also while the store is away
	}
	if f.status != http.StatusTooManyRequests {
		return f // the server is closing
	}
	return c.refuse(f, k.denied)
}

// noCheck returns the fault of a gateway that is not set up well.
func noCheck(text string) *fault {
	return &fault{status: http.StatusInternalServerError, text: "/check: " + text}
}

// parse reads the header fields that configure a check.
func (k *check) parse(h http.Header) (f *fault) {
	if k.denied, f = number(h, deniedField, http.StatusTooManyRequests, 400, 499); f != nil {
		return f
	}
	k.cost, f = number(h, costField, 1, 0, 1<<31-1)
	return f
}

// findKeys reads the keys of a check.
func (c *call) findKeys(k *check) *fault {
	keys, addresses := c.r.Header[keyField], c.r.Header[addressField]
	switch n := len(keys) + len(addresses); {
	case n == 0:
		return noCheck("there is neither " + keyField + " nor " + addressField + ": the gateway must set one of them")
	case n > maxCheckKeys:
		return noCheck("there are more than " + strconv.Itoa(maxCheckKeys) + " keys")
	}
	for _, address := range addresses {
		client, ok := caller.ParsePeer(strings.TrimSpace(address))
		if !ok {
			return &fault{status: http.StatusTooManyRequests, text: "cannot read " + addressField + ": it must be an IP address, with or without a port, or unix:"}
		}
		k.addClient(client)
	}
	for _, key := range keys {
		key, err := decider.ParseKey(key, c.api.cfg.MaxKey)
		if err != nil {
			return &fault{status: http.StatusTooManyRequests, text: keyField + ": " + err.Error()}
		}
		k.keys = append(k.keys, key)
	}
	for _, key := range k.keys {
		if f := c.authorize(token.Decide, key); f != nil {
			return noCheck(f.text)
		}
	}
	return nil
}

// addClient adds the key of a client: "address:" and its address, its network, or unix. The key is valid until
// forget.
func (k *check) addClient(client caller.Peer) {
	from := len(k.addresses)
	b := append(k.addresses, "address:"...)
	if n := caller.Network(client.Addr); client.Unix {
		b = append(b, "unix"...)
	} else if n.IsSingleIP() {
		b = n.Addr().AppendTo(b)
	} else {
		b = n.AppendTo(b)
	}
	k.addresses = b // if it has moved, earlier keys keep the old array
	k.keys = append(k.keys, unsafe.String(&b[from], len(b)-from))
}

// number reads a header field that is a whole number, with a default.
func number(h http.Header, name string, otherwise, least, most int) (int, *fault) {
	values := h[name]
	if len(values) == 0 {
		return otherwise, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || n < least || n > most || len(values) > 1 {
		return 0, noCheck(name + ": must be given once, a whole number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most))
	}
	return n, nil
}

// decide decides about all keys, or takes no tokens. The verdict belongs to the key with the
// longest denial; if all keys are allowed, it has the answers for all.
func (c *call) decide(k *check) *fault {
	if c.request = (decider.Request{Key: k.keys[0], N: k.cost}); len(k.keys) == 1 {
		if err := c.api.decider.Decide(c.r.Context(), &c.request, &c.verdict); err != nil {
			return c.uncheckable(err)
		}
		return nil
	}
	for i, key := range k.keys {
		k.requests[i] = decider.Request{Key: key, N: k.cost}
	}
	all := k.verdicts[:len(k.keys)]
	ok, err := c.api.decider.Batch(c.r.Context(), k.requests[:len(k.keys)], true, all)
	if err != nil {
		return c.uncheckable(err)
	}
	v := &c.verdict
	*v = decider.Verdict{OK: ok, Answers: v.Answers[:0]}
	longest := time.Duration(-1)
	for i := range all {
		one := &all[i]
		switch {
		case ok:
			v.Answers, v.Step = append(v.Answers, one.Answers...), max(v.Step, one.Step)
		case one.Reason != 0 && one.RetryAfter > longest:
			longest = one.RetryAfter
			*v = decider.Verdict{Reason: one.Reason, RetryAfter: one.RetryAfter, Step: one.Step, Answers: append(v.Answers[:0], one.Answers...)}
		}
	}
	return nil
}

// uncheckable returns the fault for an error of a decision about tokens. A rule without a rate is a
// mistake of the operator, not a denial.
func (c *call) uncheckable(err error) *fault {
	if errors.Is(err, decider.ErrNoRate) {
		return unratedCheck
	}
	return c.failed()
}

// refuse answers with a denial. status is the one that the gateway takes for a denial, which may
// differ from the status 429 that the body tells. The answer does not tell the key, because the
// gateway passes it to its client.
func (c *call) refuse(f *fault, status int) *fault {
	c.status = f.status // with another one, retryAfter would do nothing
	if f.reason != 0 {
		c.retryAfter(f.retryAfter)
	}
	b := appendText(f.appendProblem(append(c.buf[:0], '{')), `"error":`, f.text)
	c.buf = append(f.appendDenial(b), "}\n"...)
	c.status = status
	c.send(problemType)
	return nil
}
