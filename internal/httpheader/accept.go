package httpheader

import (
	"mime"
	"strconv"
	"strings"
)

// maxAccepted bounds the types of an Accept header that are read. Browsers name fewer than ten.
const maxAccepted = 32

// maxAcceptedItem bounds the bytes of a type with its parameters, such as text/html;q=0.8.
const maxAcceptedItem = 128

// Weight returns the weight of a type that an Accept names: 1 if it gives none, or none that can
// be read. It returns 0 for a type that is not among the first maxAccepted. Ranges such as */* name no type.
func Weight(accept []string, kind string) float64 {
	n := 0
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			if n++; n > maxAccepted {
				return 0
			}
			named, params, weighted := strings.Cut(item, ";")
			if !strings.EqualFold(strings.TrimSpace(named), kind) {
				continue
			}
			if !weighted || params == "" || len(item) > maxAcceptedItem {
				return 1
			}
			_, values, _ := mime.ParseMediaType(item)
			if q, err := strconv.ParseFloat(values["q"], 64); err == nil {
				return q
			}
			return 1
		}
	}
	return 0
}
