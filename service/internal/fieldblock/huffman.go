package fieldblock

import (
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
	b, bits, have := d.texts, uint64(0), 0 // have is the number of bits in bits
	for i := 0; ; {
		for ; have <= 56 && i < len(text); i++ {
			bits, have = bits<<8|uint64(text[i]), have+8
		}
		next := bits << (64 - have) >> (64 - shortCode)
		if have < shortCode { // the last bits: ones follow, which are no code
			next |= 1<<(shortCode-have) - 1
		}
		c := shortCodes[next]
		switch {
		case c.bits > 0 && int(c.bits) <= have:
			b, have = append(b, c.text), have-int(c.bits)
		case have < 8 && next == 1<<shortCode-1:
			d.texts = b
			return nil
		default: // a longer code, or a mistake
			_, err := hpack.HuffmanDecode((*textWriter)(&d.texts), text)
			return err
		}
	}
}

// A textWriter appends what hpack.HuffmanDecode writes.
type textWriter []byte

func (w *textWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
