package integration

func frameEntries() []entry { return nil }
