package discover

// Share is the part of a found address in its name's sessions.
type Share struct {
	Tier   int // 0 for the lowest priority there is, 1 for the next, ...
	Weight int // 1 to most
}

// Shares returns the share of each of a list that Found returned. Weights compare
// within a tier: in lowest terms, so that three times 33 is three times 1, and at
// most most. RFC 2782 gives a record of weight 0 a little beside others, which the
// smallest weight is; without SRV all weights are 0, and so alike.
func Shares(list []Found, most int) []Share {
	shares := make([]Share, len(list))
	for begin, tier := 0, 0; begin < len(list); tier++ {
		end := begin
		for end < len(list) && list[end].Priority == list[begin].Priority {
			end++
		}
		weigh(list[begin:end], shares[begin:end], most)
		for i := begin; i < end; i++ {
			shares[i].Tier = tier
		}
		begin = end
	}
	return shares
}

// weigh gives those of one priority their weights.
func weigh(list []Found, shares []Share, most int) {
	divisor, largest := 0, 0
	for i, f := range list {
		w := max(1, int(f.Weight))
		shares[i].Weight = w
		divisor, largest = gcd(w, divisor), max(largest, w)
	}
	for i := range shares {
		w := &shares[i].Weight
		*w /= divisor
		if largest/divisor > most {
			*w = max(1, *w*most*divisor/largest)
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
