package pool

import "fmt"

// Edit is one thing that differs between what runs and a configuration, and what
// it means to live sessions. Pools tell of themselves and of their backends;
// whoever holds more than pools tells of the rest in the same form.
type Edit struct {
	Kind    string `json:"kind"`              // pool, backend, frontend, name (of backends), ...
	Pool    string `json:"pool,omitempty"`    // of a backend, and of a name
	Name    string `json:"name,omitempty"`    // a backend's is its id
	Address string `json:"address,omitempty"` // of a backend
	Change  string `json:"change"`            // added, removed or altered; regained: an address that was lost
	Keys    []Key  `json:"keys,omitempty"`    // of what is altered
	Note    string `json:"note,omitempty"`

	Sessions int64  `json:"sessions"`       // live ones that it has
	Fate     string `json:"fate,omitempty"` // what becomes of these
}

// Key is one key of the file whose value differs. A secret has no values.
type Key struct {
	Key   string `json:"key"`
	From  string `json:"from"`
	To    string `json:"to"`
	ByAPI bool   `json:"by_api,omitempty"` // the API had set From
	Note  string `json:"note,omitempty"`
}

// What becomes of live sessions.
const (
	FateStay  = "stay"
	FateClose = "are closed"
)

// Alter notes that the value of a key differs, unless it does not.
func (e *Edit) Alter(key string, from, to any) {
	if a, b := fmt.Sprint(from), fmt.Sprint(to); a != b {
		e.Keys = append(e.Keys, Key{Key: key, From: a, To: b})
	}
}

// Lines says the same in words, one line for each key.
func (e Edit) Lines() []string {
	head := e.head()
	if e.Change != "altered" {
		line := head + e.Change
		if e.Address != "" {
			line += " (" + e.Address + ")"
		}
		if e.Note != "" {
			line += ", " + e.Note
		}
		return []string{line}
	}
	var lines []string
	for _, k := range e.Keys {
		lines = append(lines, head+k.String())
	}
	return lines
}

func (e Edit) head() string {
	switch {
	case e.Pool != "":
		return "pool " + e.Pool + ": " + e.Kind + " " + e.Name + " "
	case e.Name != "":
		return e.Kind + " " + e.Name + ": "
	}
	return e.Kind + ": "
}

// String says how the value changes.
func (k Key) String() string {
	text := k.Key
	switch {
	case k.From == "" && k.To == "":
		text += " changed"
	case k.ByAPI:
		text += " " + k.From + " (set by the API) -> " + k.To
	default:
		text += " " + k.From + " -> " + k.To
	}
	if k.Note != "" {
		text += ", " + k.Note
	}
	return text
}
