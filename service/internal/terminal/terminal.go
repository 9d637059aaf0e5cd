// Package terminal writes to terminals: progress of long work, and text from
// elsewhere without its control characters.
package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
)

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// maxShown bounds the characters of an escaped text.
const maxShown = 256

// Escape makes text from elsewhere, such as a key, safe to print. Characters that are
// not printable, have no width or change the direction of text become escapes.
func Escape(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > maxShown {
			b.WriteString("…")
			break
		}
		if strconv.IsPrint(r) && lipgloss.Width(string(r)) > 0 {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}
