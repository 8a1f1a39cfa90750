package integration

func toolEntries() []entry { return nil }
