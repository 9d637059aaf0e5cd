package fieldblock

import (
	"encoding/binary"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// shortCode is the length of the longest codes in shortCodes, in bits. All but seldom characters of paths have
// shorter ones (RFC 7541, appendix B).
const shortCode = 10

// A code is the Huffman code of a byte.
type code struct {
	text byte
	bits uint8 // its length; 0 if it is longer than shortCode
}

// shortCodes has the codes by the next shortCode bits.
var shortCodes = func() (table [1 << shortCode]code) {
	for i := range 256 {
		one := string([]byte{byte(i)})
		bits := int(hpack.HuffmanEncodeLength(strings.Repeat(one, 8)))
		if bits > shortCode {
			continue
		}
		padded := append(hpack.AppendHuffmanString(nil, one), 0)
		first := (int(padded[0])<<8 | int(padded[1])) >> (16 - bits) << (shortCode - bits)
		for rest := range 1 << (shortCode - bits) {
			table[first+rest] = code{byte(i), uint8(bits)}
		}
	}
	return table
}()

// appendHuffman appends what text encodes to texts.
func (d *Decoder) appendHuffman(text []byte) error {
	b, rest := d.texts, text
	bits, have := uint64(0), 0 // bits begins with have bits of text; the others are 0
	for len(rest) > 0 {
		if len(rest) >= 4 {
			bits, have, rest = bits|uint64(binary.BigEndian.Uint32(rest))<<(32-have), have+32, rest[4:]
		} else {
			for _, one := range rest {
				bits, have = bits|uint64(one)<<(56-have), have+8
			}
			rest = nil
		}
		for have >= shortCode {
			c := shortCodes[bits>>(64-shortCode)]
			if c.bits == 0 {
				return d.appendLong(text)
			}
			b = append(b, c.text)
			bits, have = bits<<(c.bits&63), have-int(c.bits) // 63: no test for a longer shift
		}
	}
	for {
		next := (bits | ^uint64(0)>>have) >> (64 - shortCode) // ones follow, which are no code
		c := shortCodes[next]
		switch {
		case c.bits > 0 && int(c.bits) <= have:
			b = append(b, c.text)
			bits, have = bits<<c.bits, have-int(c.bits)
		case have < 8 && next == 1<<shortCode-1:
			d.texts = b
			return nil
		default:
			return d.appendLong(text)
		}
	}
}

// appendLong appends what a text encodes that has longer codes, or is not valid.
func (d *Decoder) appendLong(text []byte) error {
	_, err := hpack.HuffmanDecode((*textWriter)(&d.texts), text)
	return err
}

// A textWriter appends what hpack.HuffmanDecode writes.
type textWriter []byte

func (w *textWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
