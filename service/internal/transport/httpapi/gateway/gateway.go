// Package gateway reads what a gateway asks about a request of its client.
package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"unsafe"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// MaxKeys bounds the keys of a Check, with that of the address.
const MaxKeys = 8

// Header fields of a Check.
const (
	keyField     = "Weir-Key"
	addressField = "Weir-Address"
	costField    = "Weir-Cost"
	deniedField  = "Weir-Denied-Status"
)

// A Check is a gateway's question about a request of its client. All of it comes from header
// fields that the gateway sets: the client chooses the method, the path and the query, so that
// these say nothing.
type Check struct {
	Keys   []string
	Cost   int
	Denied int // the status of a denial

	addresses []byte // the keys of addresses, to which Keys points
}

// Forget clears all that belongs to the request.
func (k *Check) Forget() {
	clear(k.Keys)
	k.Keys, k.addresses = k.Keys[:0], k.addresses[:0]
}

// A Mistake is an error of the configuration of the gateway.
type Mistake string

func (m Mistake) Error() string { return string(m) }

// A Denial is an error that the client of the gateway may have caused.
type Denial string

func (d Denial) Error() string { return string(d) }

// Parse reads the header fields that configure a Check.
func (k *Check) Parse(h http.Header) (err error) {
	if k.Denied, err = number(h, deniedField, http.StatusTooManyRequests, 400, 499); err != nil {
		return err
	}
	k.Cost, err = number(h, costField, 1, 0, 1<<31-1)
	return err
}

// ParseKeys reads the keys of a Check, of up to maxKey bytes. An error is a Mistake or a Denial.
func (k *Check) ParseKeys(h http.Header, maxKey int) error {
	keys, addresses := h[keyField], h[addressField]
	switch n := len(keys) + len(addresses); {
	case n == 0:
		return Mistake("there is neither " + keyField + " nor " + addressField + ": the gateway must set one of them")
	case n > MaxKeys:
		return Mistake("there are more than " + strconv.Itoa(MaxKeys) + " keys")
	}
	for _, address := range addresses {
		client, ok := caller.ParsePeer(strings.TrimSpace(address))
		if !ok {
			return Denial("cannot read " + addressField + ": it must be an IP address, with or without a port, or unix:")
		}
		k.addClient(client)
	}
	for _, key := range keys {
		key, err := decider.ParseKey(key, maxKey)
		if err != nil {
			return Denial(keyField + ": " + err.Error())
		}
		k.Keys = append(k.Keys, key)
	}
	return nil
}

// addClient adds the key of a client: "address:" and its address, its network, or unix. The key is valid until
// Forget.
func (k *Check) addClient(client caller.Peer) {
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
	k.Keys = append(k.Keys, unsafe.String(&b[from], len(b)-from))
}

// number reads a header field that is a whole number, with a default.
func number(h http.Header, name string, otherwise, least, most int) (int, error) {
	values := h[name]
	if len(values) == 0 {
		return otherwise, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || n < least || n > most || len(values) > 1 {
		return 0, Mistake(name + ": must be given once, a whole number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most))
	}
	return n, nil
}
