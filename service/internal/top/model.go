package top

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/weir-go/weir/service/internal/server/adminapi"
)

// A model is the interactive program. Update and View are pure; requests are in the
// commands that Update returns.
type model struct {
	ctx      context.Context
	from     client
	interval time.Duration
	by       string

	view
	asked int // number of explanations requested; answers to earlier requests are ignored
}

// The messages besides keys.
type (
	// readMsg is the state of the server. If again is set, the next request follows
	// after the interval.
	readMsg struct {
		reading
		by    string
		err   error
		at    time.Time
		again bool
	}
	tickMsg      time.Time
	explainedMsg struct {
		adminapi.Explanation
		err error
		n   int
	}
)

func newModel(ctx context.Context, from client, interval time.Duration, by string) model {
	return model{ctx: ctx, from: from, interval: interval, by: by, view: view{reading: reading{url: from.urls[0]}, live: true}}
}

func (m model) Init() tea.Cmd { return m.read(true) }

func (m model) read(again bool) tea.Cmd {
	return func() tea.Msg {
		r, err := m.from.read(m.ctx, m.by)
		return readMsg{r, m.by, err, time.Now(), again}
	}
}

func (m model) explain(key string) tea.Cmd {
	n, from := m.asked, m.url
	return func() tea.Msg {
		x, err := m.from.explain(m.ctx, from, key)
		return explainedMsg{x, err, n}
	}
}

func (m model) next() tea.Cmd {
	return tea.Tick(m.interval, func(at time.Time) tea.Msg { return tickMsg(at) })
}

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		m.now = time.Time(msg)
		if m.paused {
			return m, m.next()
		}
		return m, m.read(true)
	case readMsg:
		return m.receive(msg)
	case explainedMsg:
		if msg.n == m.asked && m.mode == explained {
			m.answer = &msg
		}
	case tea.PasteMsg:
		if m.mode == asking {
			m.input = typed(m.input, msg.Content)
		}
	case tea.KeyPressMsg:
		if m.mode == asking {
			return m.ask(msg)
		}
		return m.press(msg)
	}
	return m, nil
}

func (m model) receive(msg readMsg) (tea.Model, tea.Cmd) {
	m.now = msg.at
	if m.err = msg.err; msg.err == nil {
		m.heard = msg.at
		m.from.urls = []string{msg.url}
		if msg.by == m.by && !m.paused {
			m.reading = msg.reading
		}
	}
	if msg.again {
		return m, m.next()
	}
	return m, nil
}

// press handles a key.
func (m model) press(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	name := key.String()
	if m.proxy != nil && slices.Contains([]string{"d", "r", "e", "/"}, name) {
		return m, nil // they are about keys
	}
	switch name {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "d", "r":
		m.mode, m.paused = keys, false
		if m.by = "denied"; name == "r" {
			m.by = "requests"
		}
		return m, m.read(false)
	case "p", "space":
		m.paused = !m.paused
	case "e", "/":
		m.mode, m.input = asking, ""
	case "?", "h":
		if m.mode == help {
			m.mode = keys
		} else {
			m.mode = help
		}
	case "esc":
		m.mode = keys
	}
	return m, nil
}

// ask edits the prompt for the key to explain.
func (m model) ask(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch key.String() {
	case "ctrl+c":
		return m, tea.Quit
	case "esc":
		m.mode = keys
	case "enter":
		if strings.TrimSpace(m.input) == "" {
			m.mode = keys
			return m, nil
		}
		m.mode, m.answer = explained, nil
		m.asked++
		return m, m.explain(m.input)
	case "backspace":
		if r := []rune(m.input); len(r) > 0 {
			m.input = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.input = ""
	default:
		m.input = typed(m.input, key.Text)
	}
	return m, nil
}

// typed appends text to a key, without control characters and up to 1,024 bytes.
func typed(key, text string) string {
	const most = 1024
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	if len(key)+len(text) > most {
		return key
	}
	return key + text
}

func (m model) View() tea.View {
	v := tea.NewView(strings.Join(frame(&m.view), "\n"))
	v.AltScreen = true
	v.WindowTitle = "weir top"
	return v
}
