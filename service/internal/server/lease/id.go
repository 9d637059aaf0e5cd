package lease

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// An ID is a fencing token and its seal, which also covers the number of units, the
// key and the rules.
type ID [16]byte

// sealed returns the id of a lease of n units of a key. Only this node and the next
// process with its state can make it.
func (g *Registry) sealed(token uint64, n int, rules uint64, key string) (id ID) {
	var buf [256]byte
	b := binary.BigEndian.AppendUint64(buf[:0], token)
	copy(id[:], b)
	b = binary.BigEndian.AppendUint64(b, uint64(n))
	b = binary.BigEndian.AppendUint64(b, rules)
	binary.BigEndian.PutUint64(id[8:], g.secret.Bytes(append(b, key...)))
	return id
}

// token returns the fencing token.
func (id ID) token() uint64 { return binary.BigEndian.Uint64(id[:]) }

// text returns the id as holders see it: in hexadecimal digits, with the number of units
// if that is not 1.
func (id ID) text(n int) string {
	b := hex.AppendEncode(make([]byte, 0, 2*len(id)), id[:])
	if n != 1 {
		b = strconv.AppendInt(append(b, '-'), int64(n), 10)
	}
	return string(b)
}

// parseID reads what text returns.
func parseID(text string) (id ID, n int, ok bool) {
	digits, units, more := strings.Cut(text, "-")
	if n = 1; more {
		n, _ = strconv.Atoi(units)
	}
	if len(digits) != 2*len(id) || n < 1 || more && (n == 1 || units != strconv.Itoa(n)) {
		return id, 0, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, n, err == nil
}
