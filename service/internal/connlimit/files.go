package connlimit

import "log/slog"

// Fit returns how many connections to allow: limit, or fewer if the process may not open
// enough files, which is logged. Each connection takes a number of files, and others are
// left for other uses.
func Fit(limit, each, others int, log *slog.Logger) int {
	room := roomFor(maxFiles(), each, others+maxFarewells)
	if room < limit {
		log.Warn("the limit of open files (ulimit -n) allows fewer connections than --max-connections", "connections", room)
	}
	return min(room, limit)
}

func roomFor(files, each, others int) int { return max(max(files-others, files/2)/each, 1) }
