"""Cairn's own environments, registered with Gymnasium as cairn/Name-v0, and how any environment is made."""

import gymnasium as gym

gym.register("cairn/BitFlip-v0", "cairn.envs.bitflip:BitFlip")
gym.register("cairn/RaceCar-v0", "cairn.envs.racecar:RaceCar", max_episode_steps=150)
gym.register("cairn/BulletCartPole-v0", "cairn.envs.bulletcartpole:BulletCartPole", max_episode_steps=500)
gym.register("cairn/BalancingPlate-v0", "cairn.envs.plate:BalancingPlate", max_episode_steps=2_000)
gym.register("cairn/FetchReachFar-v0", "cairn.envs.reachfar:FetchReachFar", max_episode_steps=100)
gym.register("cairn/KeyDoorRooms-v0", "cairn.envs.rooms:KeyDoorRooms", max_episode_steps=400)
gym.register("cairn/PixelCartPole-v0", "cairn.envs.pixelcartpole:PixelCartPole")
gym.register("cairn/BasicMath-v0", "cairn.envs.basicmath:BasicMath")
for _name in ("AntMaze", "AntPush", "AntFall", "AntFallStiff", "AntGather"):
    gym.register(f"cairn/{_name}-v0", f"cairn.envs.ant_tasks:{_name}", max_episode_steps=500)
gym.register("cairn/AntWalk-v0", "cairn.envs.ant_tasks:AntWalk", max_episode_steps=25)
