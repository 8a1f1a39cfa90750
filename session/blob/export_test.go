package blob

// WatchAll makes the filter look at the time in each text, as in one that needs much work.
func (f *Filter) WatchAll() {
	for i := range f.patterns {
		f.patterns[i].steps = maxUnwatched + 1
	}
}
