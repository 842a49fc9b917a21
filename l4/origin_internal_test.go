package l4

import "testing"

// Sessions share what they can, and nothing of an earlier configuration or of
// another listener.
func TestOriginIsShared(t *testing.T) {
	f := newFrontend(newCopying(), Config{Name: "f"})
	first := f.origin(f.config.Load(), "a")
	if again := f.origin(f.config.Load(), "a"); again != first {
		t.Error("two sessions of one configuration and listener share no origin")
	}
	if other := f.origin(f.config.Load(), "b"); other == first || other.Listen != "b" {
		t.Errorf("another listener: got that of %s", other.Listen)
	}
	f.Use(Config{})
	now := f.origin(f.config.Load(), "a")
	if now == first || now.Settings != &f.config.Load().Settings || now.Frontend != "f" || now.Process != first.Process {
		t.Error("after Use: got an origin that is not of this configuration")
	}
}
